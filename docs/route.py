#!/usr/bin/env python3
"""The hash that sends a partition to a cluster, in another language: reproduces docs/route-vectors.json.

`--write` makes the file anew, of the names in it.
"""

import hashlib
import json
import pathlib
import sys

FILE = pathlib.Path(__file__).with_name("route-vectors.json")
NAMES = [
    (["a"], "jobs"),
    (["a", "b"], "jobs"),
    (["a", "b"], "jobs/7"),
    (["b", "a", "c"], "jobs/7"),
    (["east", "west"], "imports/2026-11"),
    (["east", "west", "north"], "imports/2026-11"),
    (["east", "west"], "\u00e1"),
    (["east", "west"], "a\u0301"),
    (["east", "west"], "trailing space "),
    (["a", "aa"], "a"),
    (["c-1", "c_1", "c1"], "x" * 255),
]


def weight(cluster: str, partition: str) -> int:
    name = cluster.encode()
    text = b"fenced-ledger/route/1" + len(name).to_bytes(8, "big") + name + partition.encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "big")


def vector(clusters, partition):
    weights = {cluster: weight(cluster, partition) for cluster in clusters}
    greatest = max(weights.values())
    return {
        "clusters": clusters,
        "partition": partition,
        "weights": [f"{weights[cluster]:016x}" for cluster in clusters],
        "cluster": min(cluster for cluster in clusters if weights[cluster] == greatest),
    }


computed = [vector(clusters, partition) for clusters, partition in NAMES]
if "--write" in sys.argv:
    FILE.write_text(json.dumps(computed, indent=2) + "\n")
if json.loads(FILE.read_text()) != computed:
    sys.exit("docs/route-vectors.json is not what the layout of the hash says")
print(f"{len(computed)} routes as written down")
