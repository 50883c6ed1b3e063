"""Recomputes docs/chain-vectors.json from the layout in ledger-core/src/chain.rs, with nothing but the standard library.

    python3 docs/chain.py            compares; exits with 1 where a value differs
    python3 docs/chain.py --write    fills in the digests
"""

import hashlib
import json
import pathlib
import struct
import sys
import uuid

FILE = pathlib.Path(__file__).with_name("chain-vectors.json")


def sha(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def number(value):
    return struct.pack(">q", value)


def content(events):
    parts = [number(len(events))]
    for event in events:
        for text in event:
            data = text.encode("utf-8")
            parts += [number(len(data)), data]
    return sha(*parts)


def start(ledger, partition):
    return sha(b"fenced-ledger/chain/1", uuid.UUID(ledger).bytes, sha(partition.encode()))


def following(chain, ledger, partition, entry, digest):
    identity = entry["id"] or "00000000-0000-0000-0000-000000000000"
    return sha(
        chain,
        b"\x01",
        uuid.UUID(ledger).bytes,
        sha(partition.encode()),
        number(entry["generation"]),
        number(entry["first"]),
        number(entry["last"]),
        number(entry["recorded_at"]),
        uuid.UUID(entry["acquisition"]).bytes,
        sha(entry["holder"].encode()),
        uuid.UUID(identity).bytes,
        digest,
    )


def fill(vectors):
    ledger, partition = vectors["ledger"], vectors["partition"]
    chain = start(ledger, partition)
    vectors["start"] = chain.hex()
    for vector in vectors["entries"]:
        digest = content(vector["events"])
        chain = following(chain, ledger, partition, vector["entry"], digest)
        vector["entry"]["content"] = digest.hex()
        vector["entry"]["chain"] = chain.hex()
    return vectors


def main():
    text = FILE.read_text(encoding="utf-8")
    filled = json.dumps(fill(json.loads(text)), indent=2, ensure_ascii=True) + "\n"
    if "--write" in sys.argv:
        FILE.write_text(filled, encoding="utf-8")
    elif filled != text:
        sys.exit("the vectors differ from the layout")
    else:
        print("the vectors agree with the layout")


main()
