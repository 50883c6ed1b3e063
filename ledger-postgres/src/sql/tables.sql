-- The layout, version 1, and with version_2.sql to version_4.sql all of it; a later version adds a step of its own (S3).
--
-- Times are whole microseconds since 1970 as bigint (T1): the header takes them as they are stored, and neither a
-- session's time zone nor its DateStyle can reach them. Names compare byte for byte (COLLATE "C"). The partition's key
-- is in every key of more than one partition, there are no triggers, and nothing lives in a session: that keeps the way
-- to sharded servers open. `fenced_ledger` stands for the schema's name.
create schema fenced_ledger;
revoke all on schema fenced_ledger from public;

-- The ledger of this schema: one row (D4, J4).
create table fenced_ledger.ledger (
    one boolean not null default true,
    id uuid not null,
    constraint ledger_key primary key (one),
    constraint ledger_is_one check (one)
);
insert into fenced_ledger.ledger (id) values (pg_catalog.gen_random_uuid());

-- The steps that brought the schema to its layout (S3). The greatest version is the schema's.
create table fenced_ledger.migration (
    version integer not null,
    applied_at bigint not null,
    applied_by text not null,
    constraint migration_key primary key (version)
);

-- A partition and its lease: a view of the log (G4). Changed by claims, renewals, releases, an operator's steps and the
-- first refusal as expired (T2). An append locks this row and does not change it: an old snapshot anywhere in the
-- database would make the chain of its dead versions longer with each append, without bound.
--
-- fillfactor 50: a renewal finds room on its own page and touches no index (HOT).
create table fenced_ledger.partition (
    id bigint generated always as identity,
    generation bigint not null,
    ttl bigint not null,
    expires_at bigint not null,
    renewals bigint not null,
    recorded_at bigint not null,
    -- Head and chain as of this row's own last change.
    head bigint not null,
    acquisition uuid not null,
    name text collate "C" not null,
    holder text collate "C" not null,
    -- NULL while the tenure was neither released nor ended; what an operator ended or advanced has its reason.
    vacancy text collate "C",
    vacancy_reason text collate "C",
    chain bytea not null,
    constraint partition_key primary key (id),
    constraint partition_name unique (name),
    -- The library's limits again, for whoever calls the functions by hand (S5).
    constraint partition_sizes check (octet_length(name) between 1 and 255 and octet_length(holder) <= 255),
    constraint partition_vacancy check (vacancy in ('released', 'ended') and (vacancy = 'ended') = (vacancy_reason is not null))
) with (fillfactor = 50);

-- The log: one row an event, only ever inserted. The facts of an entry stand on its last event alone: a batch costs
-- them once, and the other rows a bitmap. `payload` is json: it keeps the text byte for byte (A6), can be queried as it
-- is, and refuses what is no JSON from whoever calls `append` by hand (S5). Measured against text on PostgreSQL 15: 0.16 us
-- more for 100 bytes and 20 us for 10 kB, where an append of 100 bytes costs about 110 us of the server's CPU.
--
-- An entry's id has no own table: an index does, with an expression so that the planner can never take the primary key
-- with a filter instead, which walks the whole partition (both cost the same while a table is small, and plans stay).
create table fenced_ledger.log (
    partition bigint not null,
    position bigint not null,
    first bigint,
    generation bigint,
    recorded_at bigint,
    -- NULL too on `$released`, `$ended` and `$advanced`.
    entry_id uuid,
    acquisition uuid,
    holder text collate "C",
    content bytea,
    chain bytea,
    kind text collate "C" not null,
    metadata json not null,
    payload json not null,
    constraint log_key primary key (partition, position)
);
-- The id of an append or a claim, over the partition's whole life (A4, C4).
create unique index log_entry on fenced_ledger.log ((partition + 0), entry_id) where entry_id is not null;
-- The tenures of a partition (R3): a few rows, none of them touched by an append.
create index log_claimed on fenced_ledger.log ((partition + 0), generation) where kind = '$claimed';

-- What was refused (E1 to E3), outside of the chain (E5). `scope` is the partition's id, or 0 for all that were never
-- claimed; `generation` the current one, or 0. `key` is a digest of what a record's key has beside these two, so that
-- the index stays short and has no NULL: two names of 255 bytes are in it, and a remark of 2 KiB or none. Slots 1 to 256
-- are keys, 257 is the overflow record.
--
-- fillfactor 50, as counting is an update in place (HOT).
create table fenced_ledger.rejection (
    scope bigint not null,
    generation bigint not null,
    -- 0 for a claim that saw the partition as never claimed; NULL in an overflow record, as all of the key.
    presented bigint,
    count bigint not null,
    first_at bigint not null,
    last_at bigint not null,
    -- Of the last refusal.
    revision bigint,
    current_expires_at bigint,
    slot integer not null,
    acquisition uuid,
    append_id uuid,
    current_acquisition uuid,
    key bytea not null,
    -- Only where the partition was never claimed; it has no row there that could give its name.
    name text collate "C",
    operation text collate "C",
    reason text collate "C",
    holder text collate "C",
    current_holder text collate "C",
    -- What the refused append wanted to have kept, part of the key; NULL where it brought nothing.
    remark text collate "C",
    constraint rejection_slot primary key (scope, generation, slot),
    constraint rejection_key unique (scope, generation, key),
    constraint rejection_bound check (slot between 1 and 257),
    -- What is presented is anybody's text: the bound on rows (E3) needs one on their size.
    constraint rejection_sizes check (octet_length(name) <= 255 and octet_length(holder) <= 255),
    -- What the library takes for a remark, for whoever calls the functions by hand (S5): another would spoil the page.
    constraint rejection_remark check (octet_length(remark) between 1 and 2048
        and remark !~ E'[\\u0001-\\u001f\\u007f-\\u009f]')
) with (fillfactor = 50);

-- How many slots of a budget are taken (E3): the lock under which the next one is.
create table fenced_ledger.evidence_budget (
    scope bigint not null,
    generation bigint not null,
    used integer not null,
    constraint evidence_budget_key primary key (scope, generation)
) with (fillfactor = 50);
