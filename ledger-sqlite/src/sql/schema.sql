-- The layout, version 1. Described here and nowhere else; a later version adds a file with its step (S3).
--
-- Names start with `fenced_`, because business tables may live beside them. UUIDs are their 16 bytes, digests their
-- 32 bytes, times whole microseconds since 1970 (T1), text is UTF-8 and compares byte for byte. Table names, column
-- names and what they mean stay as they are over all versions; a column may be added.

-- The ledger of this file: one row (D4, J4).
CREATE TABLE fenced_ledger (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    id BLOB NOT NULL CHECK (length(id) = 16)
) STRICT;

-- The steps that brought the file to its layout. The greatest version is the file's (S3).
CREATE TABLE fenced_migration (
    version INTEGER PRIMARY KEY,
    applied_at INTEGER NOT NULL,
    applied_by TEXT NOT NULL
) STRICT;

-- A partition and its lease: a view of the log (G4). Changed by claims, renewals, releases, an operator's steps and
-- the first refusal as expired (T2). An append does not touch it: the head is the newest row of the log.
CREATE TABLE fenced_partition (
    partition INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE COLLATE BINARY,
    generation INTEGER NOT NULL,
    holder TEXT NOT NULL,
    acquisition BLOB NOT NULL,
    ttl INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    -- NULL while the tenure was neither released nor ended; else 'released', or 'ended' or 'advanced' with a reason.
    vacancy TEXT,
    vacancy_reason TEXT,
    renewals INTEGER NOT NULL,
    recorded_at INTEGER NOT NULL,
    -- Head and chain as of this row's own last change.
    head INTEGER NOT NULL,
    chain BLOB NOT NULL
) STRICT;

-- The log: one row an event. The facts of an entry stand on its last event alone, before the texts, so that they are
-- read without walking through a large payload. A rowid table: with the position in a WITHOUT ROWID key, appends to
-- many partitions reach half the rate.
CREATE TABLE fenced_log (
    partition INTEGER NOT NULL,
    position INTEGER NOT NULL,
    -- On the last event of an entry; NULL on the others. `entry_id` is NULL for `$released`, `$ended` and `$advanced` too.
    entry_id BLOB,
    first INTEGER,
    generation INTEGER,
    holder TEXT,
    acquisition BLOB,
    recorded_at INTEGER,
    content BLOB,
    chain BLOB,
    -- On every event.
    kind TEXT NOT NULL,
    metadata TEXT NOT NULL,
    payload TEXT NOT NULL,
    UNIQUE (partition, position)
) STRICT;

-- The id of an append or a claim, over the partition's whole life (A4, C4). The id stands first: ids of version 7
-- then fall on one page, whatever their partition.
CREATE UNIQUE INDEX fenced_log_by_id ON fenced_log (entry_id, partition) WHERE entry_id IS NOT NULL;

-- The tenures of a partition (R3).
CREATE INDEX fenced_log_by_claim ON fenced_log (partition, generation) WHERE kind = '$claimed';

-- What was refused (E1 to E3). `scope` is the partition, or 0 for all that were never claimed; `generation` the
-- current one, or 0. Slots 1 to 256 are keys, 257 is the overflow record, which has no key. Outside of the chain (E5).
CREATE TABLE fenced_rejection (
    scope INTEGER NOT NULL,
    generation INTEGER NOT NULL,
    slot INTEGER NOT NULL,
    -- NULL in the overflow record of the never-claimed ones.
    partition_name TEXT,
    -- The key: NULL in an overflow record. `presented` is 0 for a claim that saw the partition as never claimed.
    operation TEXT,
    reason TEXT,
    holder TEXT,
    presented INTEGER,
    -- What the append wanted to have kept of its refusal (Q6); part of the key, NULL where there was nothing.
    remark TEXT,
    -- Of the last refusal.
    acquisition BLOB,
    append_id BLOB,
    current_holder TEXT,
    current_acquisition BLOB,
    current_expires_at INTEGER,
    revision INTEGER,
    count INTEGER NOT NULL,
    first_at INTEGER NOT NULL,
    last_at INTEGER NOT NULL,
    PRIMARY KEY (scope, generation, slot)
) STRICT, WITHOUT ROWID;
