-- What `Schema::sql` printed at version 3, as it was. Never to be changed: stores were made with it.
begin isolation level read committed;
-- S3: one migration of a schema at a time. A lock of the transaction, so that it goes with it, also behind a transaction
-- pooler; its key comes from the schema's name, so that two schemas of one database do not wait for each other.
select pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('fenced-ledger/migrate/' || 'fenced_ledger', 0));

-- The layout, version 1, and with version_2.sql and version_3.sql all of it; a later version adds a step of its own (S3).
--
-- Times are whole microseconds since 1970 as bigint (T1): the header takes them as they are stored, and neither a
-- session's time zone nor its DateStyle can reach them. Names compare byte for byte (COLLATE "C"). The partition's key
-- is in every key of more than one partition, there are no triggers, and nothing lives in a session: that keeps the way
-- to sharded servers open. `"fenced_ledger"` stands for the schema's name.
create schema "fenced_ledger";
revoke all on schema "fenced_ledger" from public;

-- The ledger of this schema: one row (D4, J4).
create table "fenced_ledger".ledger (
    one boolean not null default true,
    id uuid not null,
    constraint ledger_key primary key (one),
    constraint ledger_is_one check (one)
);
insert into "fenced_ledger".ledger (id) values (pg_catalog.gen_random_uuid());

-- The steps that brought the schema to its layout (S3). The greatest version is the schema's.
create table "fenced_ledger".migration (
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
create table "fenced_ledger".partition (
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
create table "fenced_ledger".log (
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
create unique index log_entry on "fenced_ledger".log ((partition + 0), entry_id) where entry_id is not null;
-- The tenures of a partition (R3): a few rows, none of them touched by an append.
create index log_claimed on "fenced_ledger".log ((partition + 0), generation) where kind = '$claimed';

-- What was refused (E1 to E3), outside of the chain (E5). `scope` is the partition's id, or 0 for all that were never
-- claimed; `generation` the current one, or 0. `key` is a digest of what a record's key has beside these two, so that
-- the index stays short and has no NULL: two names of 255 bytes are in it, and a remark of 2 KiB or none. Slots 1 to 256
-- are keys, 257 is the overflow record.
--
-- fillfactor 50, as counting is an update in place (HOT).
create table "fenced_ledger".rejection (
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
create table "fenced_ledger".evidence_budget (
    scope bigint not null,
    generation bigint not null,
    used integer not null,
    constraint evidence_budget_key primary key (scope, generation)
) with (fillfactor = 50);

-- What every judged call answers: the outcome as a row, never as exception text. One type for all, so that the library
-- reads one shape, and the procedures below have the same columns as OUT parameters.
create type "fenced_ledger".answer as (
    verdict text,
    -- The partition as it stands after the call; NULL where it was never claimed.
    generation bigint,
    holder text,
    acquisition uuid,
    ttl bigint,
    expires_at bigint,
    vacancy text,
    vacancy_reason text,
    recorded_at bigint,
    head bigint,
    chain bytea,
    -- The judgement (J2).
    judged_at bigint,
    revision bigint,
    clock_behind boolean,
    -- The entry: written now, replayed, or the earlier one of a refused append (A4, A7, J3).
    entry_id uuid,
    entry_first bigint,
    entry_generation bigint,
    entry_holder text,
    entry_acquisition uuid,
    entry_recorded_at bigint,
    entry_content bytea,
    entry_chain bytea,
    entry_last bigint,
    -- What became of the record of a refusal (E2): Stored, Counted, or NULL where none was to be kept.
    record text,
    -- The payload of the `$claimed` entry that followed an older tenure (R3).
    successor text
);

-- The store's clock (T1, T2): whole microseconds since 1970, exact. A function of the schema, so that a test can step
-- it; opening a ledger compares its source with this one. SQL, so that it is inlined; not `now()`, which stands still
-- over a transaction (T4).
create or replace function "fenced_ledger".clock() returns bigint language sql volatile as
$$ select (extract(epoch from pg_catalog.clock_timestamp()) * 1000000)::bigint $$;

-- S3: the step that was taken.
insert into "fenced_ledger".migration (version, applied_at, applied_by) values (1, "fenced_ledger".clock(), 'sql');
-- The layout, version 2: a partition knows the ledger that it is of. The chain has it in each link (I1), and a look-up
-- of one row in another table costs an append as much as that of its newest entry.
alter table "fenced_ledger".partition add column ledger uuid;
update "fenced_ledger".partition x set ledger = g.id from "fenced_ledger".ledger g;
alter table "fenced_ledger".partition alter column ledger set not null;

-- An operator's advance (I4) is a vacancy with a reason too, and found as a tenure is.
alter table "fenced_ledger".partition drop constraint partition_vacancy;
alter table "fenced_ledger".partition add constraint partition_vacancy check (
    vacancy in ('released', 'ended', 'advanced') and (vacancy <> 'released') = (vacancy_reason is not null));
drop index "fenced_ledger".log_claimed;
create index log_claimed on "fenced_ledger".log ((partition + 0), generation) where kind in ('$claimed', '$advanced');

-- What the library takes for a name, an id and a generation, for whoever calls the functions by hand (S5): a record of
-- another would spoil the page that it stands on. What is stored already stays.
alter table "fenced_ledger".rejection add constraint rejection_presented check (
    octet_length(name) > 0 and name !~ E'[\\u0001-\\u001f\\u007f-\\u009f]'
    and octet_length(holder) > 0 and holder !~ E'[\\u0001-\\u001f\\u007f-\\u009f]'
    and presented >= 0 and acquisition <> '00000000-0000-0000-0000-000000000000'
    and append_id <> '00000000-0000-0000-0000-000000000000') not valid;

-- What nothing calls any more: pages are plain statements, and the other two have an argument more.
drop function if exists "fenced_ledger".read(text, bigint, integer, boolean, bigint);
drop function if exists "fenced_ledger".refuse(
    bigint, text, bigint, text, text, text, bigint, text, uuid, uuid, text, uuid, bigint, bigint, bigint, boolean);
drop function if exists "fenced_ledger".append_many(
    text[], bigint[], uuid[], text[], integer[], uuid[], bigint[], bytea[], integer[], text[], text[], text[], integer);

-- S3: the step that was taken.
insert into "fenced_ledger".migration (version, applied_at, applied_by) values (2, "fenced_ledger".clock(), 'sql');
-- The layout, version 3: `refuse` judges what a record may say (S5), all of it, where three constraints judged a part. The server
-- reads a constraint anew in each statement, which cost a repeated refusal a third of its time. The step takes the lock of this one
-- table, for a moment, and reads no row (S3).
alter table "fenced_ledger".rejection
    drop constraint rejection_sizes, drop constraint rejection_remark, drop constraint rejection_presented;

-- S3: the step that was taken.
insert into "fenced_ledger".migration (version, applied_at, applied_by) values (3, "fenced_ledger".clock(), 'sql');
-- T3, R1: a moment plus a TTL; stays at the largest moment rather than overflow, as `Timestamp::after` does.
create or replace function "fenced_ledger".later(p_at bigint, p_by bigint) returns bigint language sql immutable as
$$ select case when p_at > 9223372036854775807 - p_by then 9223372036854775807 else p_at + p_by end $$;

-- A6, S5: whether a text is what the library takes for the name of a partition or of a holder: 1 to 255 bytes without a
-- control character. The library checks its input before it asks; this and is_kind.sql, is_note.sql, is_remark.sql and
-- is_id.sql are its limits again, for whoever calls the functions by hand: nobody can store what cannot be read. Inlined
-- where they are called.
create or replace function "fenced_ledger".is_name(p_text text) returns boolean language sql immutable as
$$
    select octet_length(p_text) between 1 and 255 and p_text !~ E'[\\u0001-\\u001f\\u007f-\\u009f]'
$$;

-- A6, S5: whether a text is what the library takes for the kind of an event: a name (see is_name.sql) that is none of the
-- ledger's own. Few parts, as each of them costs every append its start.
create or replace function "fenced_ledger".is_kind(p_text text) returns boolean language sql immutable as
$$
    select octet_length(p_text) <= 255 and p_text !~ E'^(\\$|$)|[\\u0001-\\u001f\\u007f-\\u009f]'
$$;

-- A6, S5: whether all of several texts are kinds of events. Of one text `is_kind` says it without a query.
create or replace function "fenced_ledger".are_kinds(p_texts text[]) returns boolean language sql immutable as
$$
    select bool_and("fenced_ledger".is_kind(u.kind) is true) from unnest(p_texts) u (kind)
$$;

-- C3, I4, S5: whether a text is what the library takes for an operator's reason: a name with something beside blanks. The
-- characters are those that Rust takes for white space, in every locale.
create or replace function "fenced_ledger".is_note(p_text text) returns boolean language sql immutable as
$$
    select "fenced_ledger".is_name(p_text)
        and p_text ~ E'[^ \\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]'
$$;

-- E1, S5: whether a text is what the library takes for a remark: 1 to 2048 bytes without a control character.
create or replace function "fenced_ledger".is_remark(p_text text) returns boolean language sql immutable as
$$
    select octet_length(p_text) between 1 and 2048 and p_text !~ E'[\\u0001-\\u001f\\u007f-\\u009f]'
$$;

-- A4, C4, S5: whether a UUID is what the library takes for an id: any but the nil one, which is a forgotten one.
create or replace function "fenced_ledger".is_id(p_id uuid) returns boolean language sql immutable as
$$
    select p_id <> '00000000-0000-0000-0000-000000000000'
$$;

-- U4, S2: how a call begins that is a transaction of its own, over a connection with settings that may be another's: it bounds
-- each wait for a lock, in milliseconds, and is flushed where somebody has turned that off for the session. (Opening a
-- ledger asks one connection, once; and behind a transaction pooler a SET reaches whoever comes next.) A repeat that need
-- not be flushed (E3) says so later. Inlined where it is called.
create or replace function "fenced_ledger".bound_wait(p_wait integer) returns text language sql volatile as
$$
    select set_config('lock_timeout', p_wait::text, true)
        || case when current_setting('synchronous_commit') = 'off' then set_config('synchronous_commit', 'on', true) end
$$;

-- I1: the chain value of a partition before its first entry. The layout stands in ledger-core's `chain`.
-- No SET and no SECURITY DEFINER: it is inlined into the functions that call it. STABLE, as convert_to is.
create or replace function "fenced_ledger".chain_start(p_ledger uuid, p_name text) returns bytea language sql stable as
$$ select sha256(convert_to('fenced-ledger/chain/1', 'UTF8') || uuid_send(p_ledger) || sha256(convert_to(p_name, 'UTF8'))) $$;

-- I1: of a link's input what is the same for all entries of a generation: version, ledger, partition, generation.
create or replace function "fenced_ledger".chain_partition(p_ledger uuid, p_name text, p_generation bigint)
returns bytea language sql stable as
$$ select decode('01', 'hex') || uuid_send(p_ledger) || sha256(convert_to(p_name, 'UTF8')) || int8send(p_generation) $$;

-- I1: of a link's input what is the same for all entries of a tenure, after the time: acquisition and holder.
create or replace function "fenced_ledger".chain_tenure(p_acquisition uuid, p_holder text) returns bytea language sql stable as
$$ select uuid_send(p_acquisition) || sha256(convert_to(p_holder, 'UTF8')) $$;

-- I1: the chain value after an entry, from the one before it, with what a tenure's entries have in common computed once.
-- The layout stands in ledger-core's `chain`.
create or replace function "fenced_ledger".chain_link(
    p_chain bytea, p_partition bytea, p_first bigint, p_last bigint, p_recorded_at bigint, p_tenure bytea, p_id uuid,
    p_content bytea
) returns bytea language sql stable as
$$
    select sha256(
        p_chain || p_partition || int8send(p_first) || int8send(p_last) || int8send(p_recorded_at) || p_tenure
        || uuid_send(coalesce(p_id, '00000000-0000-0000-0000-000000000000'::uuid)) || p_content)
$$;

-- I1: the chain value after an entry, from the one before it.
create or replace function "fenced_ledger".chain_next(
    p_chain bytea, p_ledger uuid, p_name text, p_generation bigint, p_first bigint, p_last bigint, p_recorded_at bigint,
    p_acquisition uuid, p_holder text, p_id uuid, p_content bytea
) returns bytea language sql stable as
$$
    select "fenced_ledger".chain_link(p_chain, "fenced_ledger".chain_partition(p_ledger, p_name, p_generation), p_first,
        p_last, p_recorded_at, "fenced_ledger".chain_tenure(p_acquisition, p_holder), p_id, p_content)
$$;

-- I1: the digest of an entry's events. The store computes it for its own events; an append brings its own, which the
-- store trusts and `verify` recomputes.
create or replace function "fenced_ledger".chain_content(p_kinds text[], p_payloads text[], p_metadata text[])
returns bytea language sql stable as
$$
    select sha256(int8send(cardinality(p_kinds)) || string_agg(
        int8send(octet_length(convert_to(u.k, 'UTF8'))) || convert_to(u.k, 'UTF8')
        || int8send(octet_length(convert_to(u.p, 'UTF8'))) || convert_to(u.p, 'UTF8')
        || int8send(octet_length(convert_to(u.m, 'UTF8'))) || convert_to(u.m, 'UTF8'), ''::bytea order by u.n))
    from unnest(p_kinds, p_payloads, p_metadata) with ordinality u (k, p, m, n)
$$;

-- E4, U2: whether a presented generation has visibly ended. It speaks of committed columns alone, so that in a locking
-- statement it may be evaluated before the wait, after it, or not again.
create or replace function "fenced_ledger".visibly_ended(
    p_presented bigint, p_generation bigint, p_vacancy text, p_recorded_at bigint, p_expires_at bigint
) returns boolean language sql immutable as
$$
    select p_generation > p_presented
        or (p_generation = p_presented and (p_vacancy is not null or p_recorded_at >= p_expires_at))
$$;

-- G4: whether lease and log contradict each other, seen from the newest entry alone. The same as
-- `Standing::has_diverged` in ledger-core.
create or replace function "fenced_ledger".diverged(
    p_generation bigint, p_holder text, p_acquisition uuid, p_vacancy text, p_head bigint, p_chain bytea,
    p_tip bigint, p_tip_id uuid, p_tip_generation bigint, p_tip_holder text, p_tip_acquisition uuid, p_tip_chain bytea
) returns boolean language sql immutable as
$$
    select case
        -- The row of a first claim, before its entry.
        when p_generation = 0 then p_tip is not null
        -- No log, a newest row that is no end of an entry, or a tail that was cut.
        when p_tip_chain is null or p_tip < p_head then true
        when p_tip_generation <> p_generation or p_tip_holder <> p_holder or p_tip_acquisition <> p_acquisition then true
        when p_tip = p_head and p_tip_chain <> p_chain then true
        -- The ledger's own entries are written with the row: a row behind one was rewound.
        when p_tip <> p_head and (p_tip_id is null or p_tip_id = p_tip_acquisition) then true
        else (p_tip_id is null) <> (p_vacancy is not null) end
$$;

-- A1, D1, U2: a partition's row, its newest entry and the entry of one id, in one snapshot. The same with and without
-- the lock, for every verb. Inlined into FROM, so it has no SET and no SECURITY DEFINER.
create or replace function "fenced_ledger".state(p_name text, p_id uuid) returns table (
    ledger uuid, id bigint, generation bigint, holder text, acquisition uuid, ttl bigint, expires_at bigint,
    vacancy text, vacancy_reason text, renewals bigint, recorded_at bigint, head bigint, chain bytea, revision bigint,
    diverged boolean, ended_at bigint,
    e_id uuid, e_first bigint, e_last bigint, e_generation bigint, e_holder text, e_acquisition uuid,
    e_recorded_at bigint, e_content bytea, e_chain bytea
) language sql stable as
$$
    select x.ledger, x.id, x.generation, x.holder, x.acquisition, x.ttl, x.expires_at,
        x.vacancy, x.vacancy_reason, x.renewals, greatest(x.recorded_at, t.recorded_at),
        -- Where the log falls short of what the row knows, the row says where it should end (I2).
        greatest(t.position, x.head), case when t.position >= x.head then coalesce(t.chain, x.chain) else x.chain end,
        greatest(t.position, x.head) + x.renewals,
        "fenced_ledger".diverged(x.generation, x.holder, x.acquisition, x.vacancy, x.head, x.chain,
            t.position, t.entry_id, t.generation, t.holder, t.acquisition, t.chain),
        x.recorded_at,
        e.entry_id, e.first, e.position, e.generation, e.holder, e.acquisition, e.recorded_at, e.content, e.chain
    from "fenced_ledger".partition x
    left join lateral (
        select l.* from "fenced_ledger".log l where l.partition = x.id order by l.position desc limit 1) t on true
    left join lateral (
        select l.* from "fenced_ledger".log l where l.partition + 0 = x.id and l.entry_id = p_id limit 1) e on true
    where x.name = p_name
$$;

-- A1, above read committed: every statement of the transaction shares one snapshot, which may be older than the lock.
-- An append does not change the partition's row, so locking that row raises nothing. This raises 40001 just where the
-- snapshot misses a row: ON CONFLICT DO NOTHING refuses to step over one that it can not see. Always undone.
create or replace function "fenced_ledger".assert_fresh(p_partition bigint, p_head bigint, p_name text)
returns void language plpgsql as
$$
begin
    begin
        if p_partition is null then
            insert into "fenced_ledger".partition
                (name, generation, holder, acquisition, ttl, expires_at, renewals, recorded_at, head, chain, ledger)
                values (p_name, 0, '', '00000000-0000-0000-0000-000000000000', 0, 0, 0, 0, 0, '',
                    '00000000-0000-0000-0000-000000000000')
                on conflict do nothing;
        else
            insert into "fenced_ledger".log (partition, position, kind, metadata, payload)
                values (p_partition, p_head + 1, '$probe', '0', '0') on conflict do nothing;
        end if;
        raise exception 'undo' using errcode = 'FL000';
    exception when sqlstate 'FL000' then null;
    end;
end
$$;

-- C6, T4: a transaction that holds a partition and stalls blocks its takeover. Lowers the idle-in-transaction time-out
-- for the rest of the transaction, and never raises one that the caller has set.
create or replace function "fenced_ledger".bound_idle(p_idle integer) returns void language plpgsql as
$$
declare
    -- Printed with a unit, such as `10s`, which an interval reads; 0 means never.
    present bigint := extract(epoch from current_setting('idle_in_transaction_session_timeout')::interval) * 1000;
begin
    if present = 0 or present > p_idle then
        perform set_config('idle_in_transaction_session_timeout', p_idle::text, true);
    end if;
end
$$;

-- E2, E3: whether a call that says so is a transaction of its own, so that it may leave the count of a repeat unflushed.
-- It must never loosen the durability of what a caller wrote beside it (S2). Two things prove it: a single statement of
-- the simple protocol starts with its transaction; and the library's own sessions, which hold nothing else, and its
-- procedures, which commit, say so by a setting. (In the extended protocol a transaction begins with the Bind message
-- and the statement with the Execute message, some microseconds later.)
create or replace function "fenced_ledger".lone() returns boolean language sql stable as
$$
    select transaction_timestamp() = statement_timestamp()
        or current_setting('fenced.own', true) is not distinct from 'on'
$$;

-- E3: the digest of what a record's key has beside budget and generation. Neither a name nor a remark has a control
-- character, so a line feed separates. What is NULL is left out: `p_name` is there where the partition was never claimed
-- and nowhere else, so that one part more is a remark.
create or replace function "fenced_ledger".rejection_key(
    p_operation text, p_reason text, p_presented bigint, p_holder text, p_name text, p_remark text
) returns bytea language sql stable as
$$
    select substr(sha256(convert_to(concat_ws(E'\n', p_operation, p_reason, p_presented, p_holder, p_name, p_remark),
        'UTF8')), 1, 16)
$$;

-- E1 to E3: keeps the record of a refusal, or of so many alike, and says Stored for the first of its key or else Counted.
--
-- Locks are taken in one order: partition (where the refusal was judged under it), budget, record. The budget's row is
-- locked before it is advanced, and the key looked for again in a fresh snapshot, so that two sessions that bring one
-- new key burn no slot. A repeat need not be flushed, where the call is a transaction of its own (`p_lazy`). A count stays at
-- the greatest number, so that none that somebody has made up makes an error of a refusal.
create or replace function "fenced_ledger".refuse(
    p_scope bigint, p_name text, p_generation bigint, p_operation text, p_reason text, p_holder text, p_presented bigint,
    p_remark text, p_acquisition uuid, p_append uuid, p_current_holder text, p_current_acquisition uuid,
    p_current_expires_at bigint, p_revision bigint, p_at bigint, p_lazy boolean, p_count bigint default 1
) returns text language plpgsql as
$$
#variable_conflict error
declare
    k bytea := "fenced_ledger".rejection_key(p_operation, p_reason, p_presented, p_holder,
        case when p_scope = 0 then p_name end, p_remark);
    taken integer;
    again boolean := false;
begin
    -- A record that the library cannot read spoils its page, and with it a handover (H3). The library checks its input before it
    -- asks; this is for whoever calls by hand (S5). Operations and reasons are those of E1.
    if num_nulls(p_name, p_operation, p_reason, p_holder, p_presented, p_acquisition, p_revision, p_at) > 0
        or (p_scope = 0) <> (p_generation = 0) or p_generation < 0 or p_presented < 0 or p_revision < 0 or p_count < 1
        or p_operation not in ('Append', 'Claim', 'Renew', 'Release')
        or p_reason not in ('NeverClaimed', 'Diverged', 'StaleGeneration', 'UnknownGeneration', 'WrongAcquisition',
            'WrongHolder', 'Released', 'Expired', 'AppendIdReused', 'AcquisitionSpent', 'GenerationExhausted')
        or not "fenced_ledger".is_name(p_name) or not "fenced_ledger".is_name(p_holder)
        or not "fenced_ledger".is_name(p_current_holder) or not "fenced_ledger".is_id(p_acquisition)
        or not "fenced_ledger".is_id(p_append) or not "fenced_ledger".is_id(p_current_acquisition)
        or not "fenced_ledger".is_remark(p_remark)
    then
        raise exception 'not a refusal that is kept' using errcode = '22023';
    end if;
    loop
        update "fenced_ledger".rejection r
            set count = r.count + least(p_count, 9223372036854775807 - r.count),
                last_at = greatest(r.last_at, p_at), acquisition = p_acquisition, append_id = p_append,
                current_holder = p_current_holder, current_acquisition = p_current_acquisition,
                current_expires_at = p_current_expires_at, revision = p_revision
            where r.scope = p_scope and r.generation = p_generation and r.key = k;
        if found then
            if p_lazy then perform set_config('synchronous_commit', 'off', true); end if;
            return 'Counted';
        end if;
        if not again then
            select b.used into taken from "fenced_ledger".evidence_budget b
                where b.scope = p_scope and b.generation = p_generation;
        end if;
        if taken >= 257 then
            update "fenced_ledger".rejection r
                set count = r.count + least(p_count, 9223372036854775807 - r.count),
                    last_at = greatest(r.last_at, p_at)
                where r.scope = p_scope and r.generation = p_generation and r.slot = 257;
            if p_lazy then perform set_config('synchronous_commit', 'off', true); end if;
            return 'Counted';
        end if;
        exit when again;
        insert into "fenced_ledger".evidence_budget as b (scope, generation, used) values (p_scope, p_generation, 0)
            on conflict on constraint evidence_budget_key do update set used = b.used returning b.used into taken;
        again := true;
    end loop;
    update "fenced_ledger".evidence_budget b set used = taken + 1
        where b.scope = p_scope and b.generation = p_generation;
    if taken < 256 then
        insert into "fenced_ledger".rejection (scope, generation, presented, count, first_at, last_at, revision,
                current_expires_at, slot, acquisition, append_id, current_acquisition, key, name, operation, reason,
                holder, current_holder, remark)
            values (p_scope, p_generation, p_presented, p_count, p_at, p_at, p_revision,
                p_current_expires_at, taken + 1, p_acquisition, p_append, p_current_acquisition, k,
                case when p_scope = 0 then p_name end, p_operation, p_reason, p_holder, p_current_holder, p_remark);
        return 'Stored';
    end if;
    insert into "fenced_ledger".rejection (scope, generation, count, first_at, last_at, slot, key)
        values (p_scope, p_generation, p_count, p_at, p_at, 257, '');
    return 'Counted';
end
$$;

-- A1 to A7, T2 to T4, G4, J1, J3, E1 to E4, I1: judges an append and writes it, in one call.
--
-- The lock; then the clock (T4); then the newest entry and the use of the id, in statements of their own and so in
-- snapshots at least as new as the lock. What plainly holds is written and answered with what its caller can not know.
-- Everything else is judged in the order of J1 by what `state` shows in a single snapshot, with the lock unless the
-- presented tenure has visibly ended (E4); its refusal leaves its record. Where nothing speaks against it by then (the
-- clock was set back, or a claim landed between two statements), it is tried anew.
--
-- Few and small statements: in a transaction of its own each costs its start, and a start costs by the size of its plan.
-- Measured on PostgreSQL 18, beside 11 us for a plain INSERT without its flush: 27 us for `state`, 4 us for each of the
-- three statements before a write.
--
-- One kind and one metadata stand for all events where only one is given: the batch of one kind needs no more.
--
-- `p_own` is the library's word that the call is a transaction of its own. Inside a caller's transaction nothing is
-- written of a refusal (E2), and the server's idle-in-transaction time-out is lowered to `p_idle` for the rest of it,
-- because it then holds the partition. `p_wait` bounds each wait for a lock, in milliseconds, and is for own
-- transactions alone: it would outlast the call.
--
-- SET: operators are looked up by the search path too; a plan that was made while the tables were tiny must not become
-- a sequential scan that stays.
create or replace function "fenced_ledger".append(
    p_name text, p_generation bigint, p_acquisition uuid, p_holder text, p_id uuid, p_expected bigint, p_content bytea,
    p_kinds text[], p_payloads text[], p_metadata text[], p_remark text, p_own boolean, p_idle integer, p_wait integer
) returns "fenced_ledger".answer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off as
$$
#variable_conflict error
declare
    s record;
    x record;
    t record;
    verdict text;
    locked boolean;
    clock_at bigint;
    judged_at bigint;
    n integer := cardinality(p_payloads);
    link bytea;
    metadata json;
    wrote boolean;
    note text;
begin
    -- The library checks its input before it asks; this is for whoever calls by hand (S5). A lease is compared with what is
    -- stored, and `refuse` judges what is kept of one.
    if (n between 1 and 10000 and "fenced_ledger".is_id(p_id) and octet_length(p_content) = 32
        and cardinality(p_metadata) in (1, n) and cardinality(p_kinds) in (1, n) and "fenced_ledger".is_kind(p_kinds[1])
        and (cardinality(p_kinds) = 1 or "fenced_ledger".are_kinds(p_kinds))) is not true
    then
        raise exception 'not an append' using errcode = '22023';
    end if;
    if p_wait is not null then perform "fenced_ledger".bound_wait(p_wait); end if;
    if p_idle is not null then perform "fenced_ledger".bound_idle(p_idle); end if;
    for try in 1 .. 4 loop
        select p.id, p.expires_at, p.recorded_at, p.renewals, p.head, p.chain, p.ledger into x
            from "fenced_ledger".partition p
            where p.name = p_name and p.generation = p_generation and p.acquisition = p_acquisition
                and p.holder = p_holder and p.vacancy is null and p.recorded_at < p.expires_at
            for no key update;
        if found then
            clock_at := "fenced_ledger".clock();
            select l.position, l.entry_id, l.generation, l.holder, l.acquisition, l.chain, l.recorded_at into t
                from "fenced_ledger".log l where l.partition = x.id order by l.position desc limit 1;
            if current_setting('transaction_isolation') <> 'read committed' then
                perform "fenced_ledger".assert_fresh(x.id, greatest(t.position, x.head), p_name);
            end if;
            judged_at := greatest(clock_at, x.recorded_at, t.recorded_at);
            if judged_at < x.expires_at and coalesce(p_expected = t.position, true)
                and t.position <= 9223372036854775807 - n
                and not "fenced_ledger".diverged(p_generation, p_holder, p_acquisition, null, x.head, x.chain,
                    t.position, t.entry_id, t.generation, t.holder, t.acquisition, t.chain)
            then
                perform 1 from "fenced_ledger".log l where l.partition + 0 = x.id and l.entry_id = p_id;
                if not found then
                    if n > 1 and cardinality(p_kinds) = 1 and cardinality(p_metadata) = 1 then
                        metadata := p_metadata[1]::json;
                        insert into "fenced_ledger".log (partition, position, kind, metadata, payload)
                            select x.id, t.position + u.i, p_kinds[1], metadata, u.p::json
                            from unnest(p_payloads) with ordinality u (p, i) where u.i < n;
                    elsif n > 1 then
                        if cardinality(p_kinds) = 1 then p_kinds := array_fill(p_kinds[1], array[n]); end if;
                        if cardinality(p_metadata) = 1 then p_metadata := array_fill(p_metadata[1], array[n]); end if;
                        insert into "fenced_ledger".log (partition, position, kind, metadata, payload)
                            select x.id, t.position + u.i, u.k, u.m::json, u.p::json
                            from unnest(p_kinds, p_payloads, p_metadata) with ordinality u (k, p, m, i) where u.i < n;
                    end if;
                    link := "fenced_ledger".chain_next(t.chain, x.ledger, p_name, p_generation, t.position + 1,
                        t.position + n, judged_at, p_acquisition, p_holder, p_id, p_content);
                    insert into "fenced_ledger".log (partition, position, first, generation, recorded_at, entry_id,
                            acquisition, holder, content, chain, kind, metadata, payload)
                        values (x.id, t.position + n, t.position + 1, p_generation, judged_at, p_id,
                            p_acquisition, p_holder, p_content, link, p_kinds[cardinality(p_kinds)],
                            p_metadata[cardinality(p_metadata)]::json, p_payloads[n]::json);
                    return row('Granted', null, null, null, null, null, null, null, null, null, null,
                        judged_at, t.position + n + x.renewals, clock_at < greatest(x.recorded_at, t.recorded_at),
                        p_id, null, null, null, null, null, null, link, t.position + n, null, null)::"fenced_ledger".answer;
                end if;
            end if;
        end if;
        -- As above; what is NULL never holds, so that it is asked here, where it costs no granted append.
        if num_nulls(p_name, p_generation, p_acquisition, p_holder) > 0 then
            raise exception 'not an append' using errcode = '22023';
        end if;
        perform 1 from "fenced_ledger".partition p where p.name = p_name
            and not "fenced_ledger".visibly_ended(p_generation, p.generation, p.vacancy, p.recorded_at, p.expires_at)
            for no key update;
        locked := found;
        clock_at := "fenced_ledger".clock();
        select * into s from "fenced_ledger".state(p_name, p_id);
        if (locked or s.id is null) and current_setting('transaction_isolation') <> 'read committed' then
            perform "fenced_ledger".assert_fresh(s.id, s.head, p_name);
        end if;
        judged_at := greatest(clock_at, s.recorded_at);
        verdict := case
            when s.id is null then 'NeverClaimed'
            when s.diverged then 'Diverged'
            when p_generation < s.generation then 'StaleGeneration'
            when p_generation > s.generation then 'UnknownGeneration'
            when p_acquisition <> s.acquisition then 'WrongAcquisition'
            when p_holder <> s.holder then 'WrongHolder'
            when s.vacancy is not null then 'Released'
            when judged_at >= s.expires_at then 'Expired'
            when s.e_last is not null then case when s.e_content = p_content then 'Replay' else 'AppendIdReused' end
            -- NULL expects nothing; and where no position is left, no expectation can be met.
            when p_expected <> s.head or s.head > 9223372036854775807 - n then 'PositionConflict' end;
        exit when verdict is not null and (locked or s.id is null
            or "fenced_ledger".visibly_ended(p_generation, s.generation, s.vacancy, s.ended_at, s.expires_at));
        if try = 4 then raise exception 'the partition kept changing' using errcode = '40001'; end if;
    end loop;
    if p_own and verdict not in ('Replay', 'PositionConflict') then
        wrote := verdict = 'Expired' and locked;
        if wrote then
            -- T2: the answer rests on the expiry, so its time is stored, once.
            update "fenced_ledger".partition p set recorded_at = judged_at where p.id = s.id;
        end if;
        note := "fenced_ledger".refuse(coalesce(s.id, 0), p_name, coalesce(s.generation, 0), 'Append', verdict, p_holder,
            p_generation, p_remark, p_acquisition, p_id, s.holder, s.acquisition, s.expires_at, coalesce(s.revision, 0),
            judged_at, not wrote and "fenced_ledger".lone());
    elsif verdict = 'Expired' and locked then
        update "fenced_ledger".partition p set recorded_at = judged_at where p.id = s.id;
    end if;
    return row(verdict, s.generation, s.holder, s.acquisition, s.ttl, s.expires_at, s.vacancy, s.vacancy_reason,
        s.recorded_at, s.head, s.chain, judged_at, s.revision, clock_at < s.recorded_at,
        s.e_id, s.e_first, s.e_generation, s.e_holder, s.e_acquisition, s.e_recorded_at, s.e_content, s.e_chain, s.e_last,
        note, null)::"fenced_ledger".answer;
end
$$;

-- A1 to A3, A5 to A7, T2 to T4, G4, J1, J2, E4, I1: the appends that plainly hold, of many partitions and several of each,
-- judged one by one and written in one call.
--
-- It grants, or it decides nothing: whatever is not plainly granted (a refusal, a replay, a conflict of positions) is
-- left to `append`, so that evidence, the recording of an expiry and J3 have one home. A member that is left out uses up
-- nothing and holds back no other. What is left out because another session holds its partition is named in `held`.
--
-- No wait for a held partition: one that is held, or that would only be refused, is skipped and not locked. Then, in
-- statements of their own and so in snapshots at least as new as the locks: the newest entries and the use of the ids.
-- Each append is judged by a reading of the clock of its own (T4). Where each partition has one append, as where many
-- writers write to many, one statement does all that. Where one has several they are judged in their order, head and
-- chain carried from one to the next. Then their events, by one statement. An error undoes all of them.
--
-- Generic plans: for short arrays the planner would take each plan anew to be the cheaper one, and planning costs more
-- than all the rest. In a loop each expression costs 0.3 us, whatever it is: so there are few, and what the entries of a
-- tenure have in common is hashed once. A recursive query instead took 0.3 ms to start, and 16 to 25 us more for each
-- append.
--
-- A slot is a partition with the lease that is presented for it; `p_slots` gives the slot of each append, and `p_counts`
-- how many of the events are its own. `p_near` has by slot a position that the log has reached, or 0: a look for the
-- newest entry reads all that the index's last page has of the partition from there on, up to 5 us. Where the log ends
-- before it, nothing is granted. No id may be in one call twice. Above read committed nothing is decided here
-- (see assert_fresh.sql).
create or replace function "fenced_ledger".append_many(
    p_names text[], p_generations bigint[], p_acquisitions uuid[], p_holders text[], p_slots integer[], p_ids uuid[],
    p_expected bigint[], p_contents bytea[], p_counts integer[], p_kinds text[], p_payloads text[], p_metadata text[],
    p_near bigint[], p_wait integer, out granted bigint[], out lasts bigint[], out times bigint[], out revisions bigint[],
    out behind boolean[], out chains bytea[], out held bigint[]
)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off
    set plan_cache_mode = force_generic_plan as
$$
#variable_conflict error
declare
    n integer := cardinality(p_ids);
    -- By slot; NULL where it is not granted anything.
    ids bigint[];
    ledgers uuid[];
    expiries bigint[];
    renewals bigint[];
    recorded bigint[];
    heads bigint[];
    tips bytea[];
    -- By append: those whose id is in the log.
    known bigint[];
    -- By append: the place of its last event; NULL where each has one.
    ends integer[];
    -- Of the slot that the loop is at.
    slot integer := 0;
    head bigint;
    tip bytea;
    seen bigint;
    before bytea;
    within bytea;
    events integer;
    clock_at bigint;
begin
    -- As in `append`: for whoever calls by hand (S5). An append with a bad id or content is not counted, so that the sum is
    -- another one; and of kinds that are all the same one is looked at.
    if cardinality(p_ids) <> cardinality(p_slots) or cardinality(p_ids) <> cardinality(p_contents)
        or cardinality(p_ids) <> cardinality(p_counts) or cardinality(p_ids) <> cardinality(p_expected)
        or 1 > any (p_counts) or (select sum(u.n) from unnest(p_counts, p_ids, p_contents) u (n, id, content)
            where u.n <= 10000 and "fenced_ledger".is_id(u.id) and octet_length(u.content) = 32)
            is distinct from cardinality(p_kinds)
        or cardinality(p_payloads) <> cardinality(p_kinds) or cardinality(p_metadata) <> cardinality(p_kinds)
        or not "fenced_ledger".is_kind(p_kinds[1])
        or exists (select from unnest(p_kinds) u (kind) where u.kind <> p_kinds[1] and not "fenced_ledger".is_kind(u.kind))
    then
        raise exception 'not appends' using errcode = '22023';
    end if;
    if current_setting('transaction_isolation') <> 'read committed' then return; end if;
    if p_wait is not null then perform "fenced_ledger".bound_wait(p_wait); end if;
    select array_agg(p.id), array_agg(p.ledger), array_agg(p.expires_at), array_agg(p.renewals),
            array_agg(p.recorded_at), array_agg(p.head), array_agg(p.chain)
        into ids, ledgers, expiries, renewals, recorded, heads, tips
        from unnest(p_names, p_generations, p_acquisitions, p_holders) u (name, generation, acquisition, holder)
        -- LIMIT, here and below: one look-up by key for each, whatever the size of the tables was when it was planned.
        left join lateral (
            select p.id, p.ledger, p.expires_at, p.renewals, p.recorded_at, p.head, p.chain
            from "fenced_ledger".partition p where p.name = u.name and p.generation = u.generation
                and p.acquisition = u.acquisition and p.holder = u.holder and p.vacancy is null
                and p.recorded_at < p.expires_at
            limit 1 for no key update skip locked) p on true;
    if array_position(ids, null) > 0 then
        select array_agg(u.slot) into held from unnest(p_names, p_generations, p_acquisitions, p_holders)
            with ordinality u (name, generation, acquisition, holder, slot)
        cross join lateral (
            select 1 from "fenced_ledger".partition p where p.name = u.name and p.generation = u.generation
                and p.acquisition = u.acquisition and p.holder = u.holder and p.vacancy is null
                and p.recorded_at < p.expires_at
            limit 1) p
        where ids[u.slot] is null;
    end if;
    if cardinality(p_names) = n then
        select array_agg(q.nth), array_agg(q.last), array_agg(q.judged_at), array_agg(q.last + renewals[q.nth]),
                array_agg(q.clock_at < q.seen), array_agg("fenced_ledger".chain_next(q.chain, ledgers[q.nth],
                    p_names[q.nth], p_generations[q.nth], q.position + 1, q.last, q.judged_at, p_acquisitions[q.nth],
                    p_holders[q.nth], p_ids[q.nth], p_contents[q.nth]))
            into granted, lasts, times, revisions, behind, chains
            from (
                select m.nth, t.position, t.position + p_counts[m.nth] as last, t.chain, c.clock_at,
                    greatest(recorded[m.nth], t.recorded_at) as seen,
                    greatest(c.clock_at, recorded[m.nth], t.recorded_at) as judged_at
                from unnest(ids, p_slots) with ordinality m (id, slot, nth)
                cross join lateral (
                    select l.position, l.entry_id, l.generation, l.holder, l.acquisition, l.chain, l.recorded_at
                    from "fenced_ledger".log l where l.partition = m.id and l.position >= p_near[m.nth]
                    order by l.position desc limit 1) t
                cross join lateral (select "fenced_ledger".clock() as clock_at offset 0) c
                where m.slot = m.nth
                    and not "fenced_ledger".diverged(p_generations[m.nth], p_holders[m.nth], p_acquisitions[m.nth], null,
                        heads[m.nth], tips[m.nth], t.position, t.entry_id, t.generation, t.holder, t.acquisition,
                        t.chain)
                    and (select 1 from "fenced_ledger".log l where l.partition + 0 = m.id and l.entry_id = p_ids[m.nth]
                        limit 1) is null
                    -- NULL expects nothing.
                    and coalesce(p_expected[m.nth] = t.position, true)
                    and t.position <= 9223372036854775807 - p_counts[m.nth]) q
            where q.judged_at < expiries[q.nth];
    else
        select array_agg(case when not t.diverged then t.position end), array_agg(t.chain),
                array_agg(greatest(u.recorded_at, t.recorded_at))
            into heads, tips, recorded
            from unnest(ids, p_generations, p_holders, p_acquisitions, heads, tips, recorded, p_near)
                u (id, generation, holder, acquisition, head, chain, recorded_at, near)
            left join lateral (
                select l.position, l.chain, l.recorded_at, "fenced_ledger".diverged(u.generation, u.holder, u.acquisition,
                    null, u.head, u.chain, l.position, l.entry_id, l.generation, l.holder, l.acquisition, l.chain)
                    as diverged
                from "fenced_ledger".log l where l.partition = u.id and l.position >= u.near
                order by l.position desc limit 1) t on true;
        select array_agg(u.nth) into known from unnest(p_slots, p_ids) with ordinality u (of, id, nth)
            cross join lateral (
                select 1 from "fenced_ledger".log l where l.partition + 0 = ids[u.of] and l.entry_id = u.id limit 1) e;
        for nth in 1 .. n loop
            events := p_counts[nth];
            if slot <> p_slots[nth] then
                -- Head, chain and recorded time move on with each append; one that comes back to a slot finds them.
                if slot > 0 then
                    heads[slot] := head;
                    tips[slot] := tip;
                    recorded[slot] := seen;
                end if;
                slot := p_slots[nth];
                head := heads[slot];
                tip := tips[slot];
                seen := recorded[slot];
                before := "fenced_ledger".chain_partition(ledgers[slot], p_names[slot], p_generations[slot]);
                within := "fenced_ledger".chain_tenure(p_acquisitions[slot], p_holders[slot]);
            end if;
            clock_at := "fenced_ledger".clock();
            continue when head is null or nth = any (known) or greatest(clock_at, seen) >= expiries[slot]
                or p_expected[nth] <> head or head > 9223372036854775807 - events;
            behind := behind || (clock_at < seen);
            seen := greatest(clock_at, seen);
            tip := "fenced_ledger".chain_link(tip, before, head + 1, head + events, seen, within, p_ids[nth],
                p_contents[nth]);
            head := head + events;
            granted := granted || nth::bigint;
            lasts := lasts || head;
            times := times || seen;
            revisions := revisions || head + renewals[slot];
            chains := chains || tip;
        end loop;
    end if;
    if granted is null then return; end if;
    if cardinality(p_kinds) > n then
        select array_agg(u.upto) into ends
            from (select sum(u.n) over (order by u.nth) from unnest(p_counts) with ordinality u (n, nth)) u (upto);
    end if;
    insert into "fenced_ledger".log (partition, position, first, generation, recorded_at, entry_id, acquisition,
            holder, content, chain, kind, metadata, payload)
        select ids[s.slot], g.last, g.last - p_counts[g.nth] + 1, p_generations[s.slot], g.time, p_ids[g.nth],
            p_acquisitions[s.slot], p_holders[s.slot], p_contents[g.nth], g.chain, p_kinds[s.upto],
            p_metadata[s.upto]::json, p_payloads[s.upto]::json
        from unnest(granted, lasts, times, chains) g (nth, last, "time", chain)
        cross join lateral (select p_slots[g.nth], coalesce(ends[g.nth], g.nth)) s (slot, upto);
    -- The events before an entry's last one.
    if ends is not null then
        insert into "fenced_ledger".log (partition, position, kind, metadata, payload)
            select ids[s.slot], g.last - (s.upto - i), p_kinds[i], p_metadata[i]::json, p_payloads[i]::json
            from unnest(granted, lasts) g (nth, last)
            cross join lateral (select p_slots[g.nth], ends[g.nth]) s (slot, upto)
            cross join generate_series(s.upto - p_counts[g.nth] + 1, s.upto - 1) i;
    end if;
end
$$;

-- E4, J1 to J3: what appends are judged by whose tenure has visibly ended: for each partition and id the lease, the newest
-- entry and the entry of that id, in one snapshot. No lock and no write; the library judges, as ledger-core does, and
-- asks `append` wherever the tenure has not ended by what is seen here.
--
-- No row for a partition that was never claimed. LIMIT: one look-up by key for each, whatever the size of the tables
-- was when it was planned.
create or replace function "fenced_ledger".look(p_names text[], p_ids uuid[]) returns table (
    nth bigint,
    generation bigint, holder text, acquisition uuid, ttl bigint, expires_at bigint, vacancy text, vacancy_reason text,
    renewals bigint, recorded_at bigint, head bigint, chain bytea,
    tip_id uuid, tip_first bigint, tip_generation bigint, tip_holder text, tip_acquisition uuid,
    tip_recorded_at bigint, tip_content bytea, tip_chain bytea, tip_last bigint,
    entry_id uuid, entry_first bigint, entry_generation bigint, entry_holder text, entry_acquisition uuid,
    entry_recorded_at bigint, entry_content bytea, entry_chain bytea, entry_last bigint,
    clock_at bigint
)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off
    set plan_cache_mode = force_generic_plan as
$$
#variable_conflict use_column
begin
    return query
        select u.nth, x.generation, x.holder, x.acquisition, x.ttl, x.expires_at, x.vacancy, x.vacancy_reason,
            x.renewals, x.recorded_at, x.head, x.chain,
            t.entry_id, t.first, t.generation, t.holder, t.acquisition, t.recorded_at, t.content, t.chain, t.position,
            e.entry_id, e.first, e.generation, e.holder, e.acquisition, e.recorded_at, e.content, e.chain, e.position,
            "fenced_ledger".clock()
        from unnest(p_names, p_ids) with ordinality u (name, id, nth)
        cross join lateral (select * from "fenced_ledger".partition p where p.name = u.name limit 1) x
        left join lateral (
            select * from "fenced_ledger".log l where l.partition = x.id order by l.position desc limit 1) t on true
        left join lateral (
            select * from "fenced_ledger".log l where l.partition + 0 = x.id and l.entry_id = u.id limit 1) e on true;
end
$$;

-- C1 to C6, G1 to G4, T2 to T4, J1, E1 to E4: judges a claim and stores it with its succession, in one call.
--
-- `p_observed` is 0 for a partition seen as never claimed. What a committed state has settled for ever (a spent
-- acquisition, an observation below the current generation, an own tenure that has visibly ended) is answered without
-- the lock (E4). Everything else is judged under it, `Held` too: a renewal or an expiry may be in the wait (T4).
create or replace function "fenced_ledger".claim(
    p_name text, p_acquisition uuid, p_holder text, p_ttl bigint, p_observed bigint, p_observed_acquisition uuid,
    p_own boolean, p_wait integer
) returns "fenced_ledger".answer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off as
$$
#variable_conflict error
declare
    s record;
    verdict text;
    locked boolean := false;
    clock_at bigint;
    judged_at bigint;
    until bigint;
    succession text;
    digest bytea;
    link bytea;
    wrote boolean;
    note text;
begin
    -- The library checks its input before it asks; this is for whoever calls by hand (S5).
    if num_nulls(p_name, p_acquisition, p_holder, p_ttl, p_observed) > 0 or not "fenced_ledger".is_name(p_name)
        or not "fenced_ledger".is_name(p_holder) or not "fenced_ledger".is_id(p_acquisition) or p_observed < 0
        or p_ttl not between 1 and 86400000000
    then
        raise exception 'not a claim' using errcode = '22023';
    end if;
    if p_wait is not null then perform "fenced_ledger".bound_wait(p_wait); end if;
    for try in 1 .. 6 loop
        clock_at := "fenced_ledger".clock();
        select * into s from "fenced_ledger".state(p_name, p_acquisition);
        if s.id is null then
            verdict := 'ObservationOutdated';
            judged_at := clock_at;
            exit when p_observed <> 0;
            -- C2: the first claim locks by its insert, and is completed below. Nothing of time may be in it: it may wait
            -- for a rival that rolls back, and the clock is read after that wait.
            insert into "fenced_ledger".partition
                (name, generation, holder, acquisition, ttl, expires_at, renewals, recorded_at, head, chain, ledger)
                select p_name, 0, p_holder, p_acquisition, p_ttl, -9223372036854775808, 0, -9223372036854775808, 0,
                    "fenced_ledger".chain_start(g.id, p_name), g.id
                from "fenced_ledger".ledger g where g.one
                on conflict do nothing;
            locked := found;
            if try = 6 then raise exception 'the partition kept changing' using errcode = '40001'; end if;
            continue;
        end if;
        judged_at := greatest(clock_at, s.recorded_at);
        verdict := case
            when s.diverged then 'Diverged'
            when s.generation = 0 then 'Granted'
            when s.acquisition = p_acquisition then case
                when s.holder <> p_holder then 'WrongHolder'
                when s.vacancy is not null then 'Released'
                when judged_at >= s.expires_at then 'Expired'
                else 'Replay' end
            when s.e_last is not null then 'AcquisitionSpent'
            when p_observed <> s.generation or p_observed_acquisition is distinct from s.acquisition
                then 'ObservationOutdated'
            when s.vacancy is null and judged_at < s.expires_at then 'Held'
            when s.generation = 9223372036854775807 or s.head = 9223372036854775807 then 'GenerationExhausted'
            else 'Granted' end;
        exit when locked
            or verdict = 'AcquisitionSpent'
            or (verdict = 'ObservationOutdated' and s.generation > p_observed)
            or (verdict in ('WrongHolder', 'Released', 'Expired') and (s.vacancy is not null or s.ended_at >= s.expires_at));
        perform 1 from "fenced_ledger".partition x where x.name = p_name for no key update;
        locked := found;
    end loop;
    if (locked or s.id is null) and current_setting('transaction_isolation') <> 'read committed' then
        perform "fenced_ledger".assert_fresh(s.id, s.head, p_name);
    end if;
    if verdict = 'Granted' then
        until := "fenced_ledger".later(judged_at, p_ttl);
        -- The bytes that `OwnEvent` of ledger-core writes.
        succession := '{"previous":' || case when s.generation = 0 then 'null' else
                '{"holder":' || to_json(s.holder) || ',"generation":' || s.generation || ',"acquisition":"' || s.acquisition
                || '","last_position":' || s.head || '}' end
            || ',"basis":{"kind":' || case
                when s.generation = 0 then '"first"'
                when s.vacancy = 'released' then '"released"'
                when s.vacancy in ('ended', 'advanced')
                    then to_json(s.vacancy) || ',"reason":' || to_json(s.vacancy_reason)
                else '"expired","expires_at":' || s.expires_at || ',"judged_at":' || judged_at end
            || '},"holder":' || to_json(p_holder) || ',"generation":' || (s.generation + 1) || ',"acquisition":"'
            || p_acquisition || '","ttl":' || p_ttl || ',"expires_at":' || until || ',"at":' || judged_at || '}';
        digest := "fenced_ledger".chain_content(array['$claimed'], array[succession], array['{}']);
        link := "fenced_ledger".chain_next(s.chain, s.ledger, p_name, s.generation + 1, s.head + 1, s.head + 1, judged_at,
            p_acquisition, p_holder, p_acquisition, digest);
        insert into "fenced_ledger".log (partition, position, first, generation, recorded_at, entry_id, acquisition, holder,
                content, chain, kind, metadata, payload)
            values (s.id, s.head + 1, s.head + 1, s.generation + 1, judged_at, p_acquisition, p_acquisition, p_holder,
                digest, link, '$claimed', '{}', succession::json);
        update "fenced_ledger".partition x
            set generation = s.generation + 1, holder = p_holder, acquisition = p_acquisition, ttl = p_ttl,
                expires_at = until, vacancy = null, vacancy_reason = null, recorded_at = judged_at, head = s.head + 1,
                chain = link
            where x.id = s.id;
        return row(verdict, s.generation + 1, p_holder, p_acquisition, p_ttl, until, null, null,
        judged_at, s.head + 1, link, judged_at, s.revision + 1, clock_at < s.recorded_at,
        null, null, null, null, null, null, null, null, null,
        null, null)::"fenced_ledger".answer;
    end if;
    if verdict not in ('Replay', 'ObservationOutdated', 'Held') then
        wrote := verdict = 'Expired' and locked and s.ended_at < s.expires_at;
        if wrote then
            -- T2: the answer rests on the expiry, so its time is stored, once.
            update "fenced_ledger".partition x set recorded_at = judged_at where x.id = s.id;
        end if;
        note := "fenced_ledger".refuse(s.id, p_name, s.generation, 'Claim', verdict, p_holder, p_observed, null,
            p_acquisition, null, s.holder, s.acquisition, s.expires_at, s.revision, judged_at,
            p_own and not wrote and "fenced_ledger".lone());
    end if;
    return row(verdict, s.generation, s.holder, s.acquisition, s.ttl, s.expires_at, s.vacancy, s.vacancy_reason,
        s.recorded_at, s.head, s.chain, judged_at, s.revision, clock_at < s.recorded_at,
        null, null, null, null, null, null, null, null, null,
        note, null)::"fenced_ledger".answer;
end
$$;

-- R1, R2, T2 to T4, G4, J1, E1 to E4: judges a renewal and stores it, in one call. The steps are those of `append`.
create or replace function "fenced_ledger".renew(
    p_name text, p_generation bigint, p_acquisition uuid, p_holder text, p_ttl bigint, p_own boolean, p_wait integer
) returns "fenced_ledger".answer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off as
$$
#variable_conflict error
declare
    s record;
    verdict text;
    locked boolean;
    clock_at bigint;
    judged_at bigint;
    until bigint;
    wrote boolean;
    note text;
begin
    -- The library checks its input before it asks; this is for whoever calls by hand (S5). Without a TTL the tenure's own
    -- goes on; of a lease all is compared, so all must be there.
    if num_nulls(p_name, p_generation, p_acquisition, p_holder) > 0 or p_ttl not between 1 and 86400000000 then
        raise exception 'not a renewal' using errcode = '22023';
    end if;
    if p_wait is not null then perform "fenced_ledger".bound_wait(p_wait); end if;
    for try in 1 .. 4 loop
        perform 1 from "fenced_ledger".partition x where x.name = p_name
            and not "fenced_ledger".visibly_ended(p_generation, x.generation, x.vacancy, x.recorded_at, x.expires_at)
            for no key update;
        locked := found;
        clock_at := "fenced_ledger".clock();
        select * into s from "fenced_ledger".state(p_name, null);
        exit when locked or s.id is null
            or "fenced_ledger".visibly_ended(p_generation, s.generation, s.vacancy, s.ended_at, s.expires_at);
        if try = 4 then raise exception 'the partition kept changing' using errcode = '40001'; end if;
    end loop;
    if (locked or s.id is null) and current_setting('transaction_isolation') <> 'read committed' then
        perform "fenced_ledger".assert_fresh(s.id, s.head, p_name);
    end if;
    judged_at := greatest(clock_at, s.recorded_at);
    verdict := case
        when s.id is null then 'NeverClaimed'
        when s.diverged then 'Diverged'
        when p_generation < s.generation then 'StaleGeneration'
        when p_generation > s.generation then 'UnknownGeneration'
        when p_acquisition <> s.acquisition then 'WrongAcquisition'
        when p_holder <> s.holder then 'WrongHolder'
        when s.vacancy is not null then 'Released'
        when judged_at >= s.expires_at then 'Expired'
        else 'Granted' end;
    if verdict = 'Granted' then
        until := greatest(s.expires_at, "fenced_ledger".later(judged_at, coalesce(p_ttl, s.ttl)));
        update "fenced_ledger".partition x
            set expires_at = until, renewals = x.renewals + 1, recorded_at = judged_at, head = s.head, chain = s.chain
            where x.id = s.id;
        return row(verdict, s.generation, s.holder, s.acquisition, s.ttl, until, s.vacancy, s.vacancy_reason,
        judged_at, s.head, s.chain, judged_at, s.revision + 1, clock_at < s.recorded_at,
        null, null, null, null, null, null, null, null, null,
        null, null)::"fenced_ledger".answer;
    end if;
    wrote := verdict = 'Expired' and locked;
    if wrote then
        -- T2: the answer rests on the expiry, so its time is stored, once.
        update "fenced_ledger".partition x set recorded_at = judged_at where x.id = s.id;
    end if;
    note := "fenced_ledger".refuse(coalesce(s.id, 0), p_name, coalesce(s.generation, 0), 'Renew', verdict, p_holder,
        p_generation, null, p_acquisition, null, s.holder, s.acquisition, s.expires_at, coalesce(s.revision, 0),
        judged_at, p_own and not wrote and "fenced_ledger".lone());
    return row(verdict, s.generation, s.holder, s.acquisition, s.ttl, s.expires_at, s.vacancy, s.vacancy_reason,
        s.recorded_at, s.head, s.chain, judged_at, s.revision, clock_at < s.recorded_at,
        null, null, null, null, null, null, null, null, null,
        note, null)::"fenced_ledger".answer;
end
$$;

-- R3, G4, T2 to T4, J1, E1 to E4: judges a release and stores it, in one call. The steps are those of `append`. A tenure
-- that has ended is a success without effect; of an older one the log says who held it and how it ended.
create or replace function "fenced_ledger".release(
    p_name text, p_generation bigint, p_acquisition uuid, p_holder text, p_own boolean, p_wait integer
) returns "fenced_ledger".answer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off as
$$
#variable_conflict error
declare
    s record;
    verdict text;
    locked boolean;
    clock_at bigint;
    judged_at bigint;
    was_holder text;
    was_acquisition uuid;
    followed_by text;
    digest bytea;
    link bytea;
    note text;
begin
    -- As in `renew`: of a lease all is compared, so all must be there (S5).
    if num_nulls(p_name, p_generation, p_acquisition, p_holder) > 0 then
        raise exception 'not a release' using errcode = '22023';
    end if;
    if p_wait is not null then perform "fenced_ledger".bound_wait(p_wait); end if;
    for try in 1 .. 4 loop
        perform 1 from "fenced_ledger".partition x where x.name = p_name
            and not "fenced_ledger".visibly_ended(p_generation, x.generation, x.vacancy, x.recorded_at, x.expires_at)
            for no key update;
        locked := found;
        clock_at := "fenced_ledger".clock();
        select * into s from "fenced_ledger".state(p_name, null);
        exit when locked or s.id is null
            or "fenced_ledger".visibly_ended(p_generation, s.generation, s.vacancy, s.ended_at, s.expires_at);
        if try = 4 then raise exception 'the partition kept changing' using errcode = '40001'; end if;
    end loop;
    if (locked or s.id is null) and current_setting('transaction_isolation') <> 'read committed' then
        perform "fenced_ledger".assert_fresh(s.id, s.head, p_name);
    end if;
    judged_at := greatest(clock_at, s.recorded_at);
    if p_generation < s.generation then
        select l.holder, l.acquisition into was_holder, was_acquisition from "fenced_ledger".log l
            where l.partition + 0 = s.id and l.generation = p_generation and l.kind = '$claimed';
        select l.payload::text into followed_by from "fenced_ledger".log l
            where l.partition + 0 = s.id and l.generation > p_generation and l.kind = '$claimed'
            order by l.generation limit 1;
    else
        was_holder := s.holder;
        was_acquisition := s.acquisition;
    end if;
    verdict := case
        when s.id is null then 'NeverClaimed'
        when s.diverged then 'Diverged'
        when p_generation > s.generation or was_acquisition is null then 'UnknownGeneration'
        when p_acquisition <> was_acquisition then 'WrongAcquisition'
        when p_holder <> was_holder then 'WrongHolder'
        when p_generation < s.generation or s.vacancy is not null or judged_at >= s.expires_at then 'AlreadyEnded'
        when s.head = 9223372036854775807 then 'GenerationExhausted'
        else 'Granted' end;
    if verdict = 'Granted' then
        digest := "fenced_ledger".chain_content(array['$released'], array['{}'], array['{}']);
        link := "fenced_ledger".chain_next(s.chain, s.ledger, p_name, s.generation, s.head + 1, s.head + 1, judged_at,
            s.acquisition, s.holder, null, digest);
        insert into "fenced_ledger".log (partition, position, first, generation, recorded_at, entry_id, acquisition, holder,
                content, chain, kind, metadata, payload)
            values (s.id, s.head + 1, s.head + 1, s.generation, judged_at, null, s.acquisition, s.holder,
                digest, link, '$released', '{}', '{}');
        update "fenced_ledger".partition x
            set vacancy = 'released', recorded_at = judged_at, head = s.head + 1, chain = link where x.id = s.id;
        return row(verdict, s.generation, s.holder, s.acquisition, s.ttl, s.expires_at, 'released', null,
        judged_at, s.head + 1, link, judged_at, s.revision + 1, clock_at < s.recorded_at,
        null, null, null, null, null, null, null, null, null,
        null, null)::"fenced_ledger".answer;
    end if;
    if verdict = 'AlreadyEnded' then
        if p_generation = s.generation and s.vacancy is null and locked then
            -- T2: the answer rests on the expiry, so its time is stored, once.
            update "fenced_ledger".partition x set recorded_at = judged_at where x.id = s.id;
        end if;
        return row(verdict, s.generation, s.holder, s.acquisition, s.ttl, s.expires_at, s.vacancy, s.vacancy_reason,
        s.recorded_at, s.head, s.chain, judged_at, s.revision, clock_at < s.recorded_at,
        null, null, null, null, null, null, null, null, null,
        null, followed_by)::"fenced_ledger".answer;
    end if;
    note := "fenced_ledger".refuse(coalesce(s.id, 0), p_name, coalesce(s.generation, 0), 'Release', verdict, p_holder,
        p_generation, null, p_acquisition, null, s.holder, s.acquisition, s.expires_at, coalesce(s.revision, 0),
        judged_at, p_own and "fenced_ledger".lone());
    return row(verdict, s.generation, s.holder, s.acquisition, s.ttl, s.expires_at, s.vacancy, s.vacancy_reason,
        s.recorded_at, s.head, s.chain, judged_at, s.revision, clock_at < s.recorded_at,
        null, null, null, null, null, null, null, null, null,
        note, null)::"fenced_ledger".answer;
end
$$;

-- C3, G4, C5, J1: judges an operator's end of a tenure and stores it, in one call. It leaves no evidence (E1), and always
-- waits for the lock.
create or replace function "fenced_ledger".end_tenure(
    p_name text, p_observed bigint, p_observed_acquisition uuid, p_reason text, p_wait integer
) returns "fenced_ledger".answer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off as
$$
#variable_conflict error
declare
    s record;
    verdict text;
    clock_at bigint;
    judged_at bigint;
    body text;
    digest bytea;
    link bytea;
begin
    -- The library checks its input before it asks; this is for whoever calls by hand (S5). What was seen as never claimed
    -- is 0, without an acquisition.
    if num_nulls(p_name, p_observed, p_reason) > 0 or not "fenced_ledger".is_note(p_reason) then
        raise exception 'not an end of a tenure' using errcode = '22023';
    end if;
    if p_wait is not null then perform "fenced_ledger".bound_wait(p_wait); end if;
    perform 1 from "fenced_ledger".partition x where x.name = p_name for no key update;
    clock_at := "fenced_ledger".clock();
    select * into s from "fenced_ledger".state(p_name, null);
    if current_setting('transaction_isolation') <> 'read committed' then
        perform "fenced_ledger".assert_fresh(s.id, s.head, p_name);
    end if;
    judged_at := greatest(clock_at, s.recorded_at);
    verdict := case
        when s.id is null then 'NeverClaimed'
        when s.diverged then 'Diverged'
        when p_observed <> s.generation or p_observed_acquisition is distinct from s.acquisition then 'ObservationOutdated'
        when s.vacancy is not null then 'AlreadyVacant'
        when s.head = 9223372036854775807 then 'GenerationExhausted'
        else 'Granted' end;
    if verdict = 'Granted' then
        body := '{"reason":' || to_json(p_reason) || '}';
        digest := "fenced_ledger".chain_content(array['$ended'], array[body], array['{}']);
        link := "fenced_ledger".chain_next(s.chain, s.ledger, p_name, s.generation, s.head + 1, s.head + 1, judged_at,
            s.acquisition, s.holder, null, digest);
        insert into "fenced_ledger".log (partition, position, first, generation, recorded_at, entry_id, acquisition, holder,
                content, chain, kind, metadata, payload)
            values (s.id, s.head + 1, s.head + 1, s.generation, judged_at, null, s.acquisition, s.holder,
                digest, link, '$ended', '{}', body::json);
        update "fenced_ledger".partition x
            set vacancy = 'ended', vacancy_reason = p_reason, recorded_at = judged_at, head = s.head + 1, chain = link
            where x.id = s.id;
        return row(verdict, s.generation, s.holder, s.acquisition, s.ttl, s.expires_at, 'ended', p_reason,
        judged_at, s.head + 1, link, judged_at, s.revision + 1, clock_at < s.recorded_at,
        null, null, null, null, null, null, null, null, null,
        null, null)::"fenced_ledger".answer;
    end if;
    return row(verdict, s.generation, s.holder, s.acquisition, s.ttl, s.expires_at, s.vacancy, s.vacancy_reason,
        s.recorded_at, s.head, s.chain, judged_at, s.revision, clock_at < s.recorded_at,
        null, null, null, null, null, null, null, null, null,
        null, null)::"fenced_ledger".answer;
end
$$;

-- I4, G1, G4, C5, J1: judges an operator's advance and stores it, in one call. It leaves no evidence (E1), and always
-- waits for the lock. The log goes on from its newest entry, whatever the row says: so that is read here, and `state`
-- only tells what is answered. The same steps as `decide::advance` of ledger-core.
create or replace function "fenced_ledger".advance(
    p_name text, p_acquisition uuid, p_operator text, p_above bigint, p_reason text, p_wait integer
) returns "fenced_ledger".answer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off as
$$
#variable_conflict error
declare
    s record;
    -- The row as it is stored, the newest entry that has its end, and the step where it was taken before.
    kept record;
    t record;
    a record;
    last bigint;
    verdict text;
    clock_at bigint;
    judged_at bigint;
    next bigint;
    counted bigint;
    body text;
    digest bytea;
    link bytea;
begin
    -- The library checks its input before it asks; this is for whoever calls by hand (S5).
    if num_nulls(p_name, p_acquisition, p_operator, p_reason) > 0 or not "fenced_ledger".is_name(p_name)
        or not "fenced_ledger".is_name(p_operator) or not "fenced_ledger".is_id(p_acquisition)
        or not "fenced_ledger".is_note(p_reason) or p_above < 1
    then
        raise exception 'not an advance' using errcode = '22023';
    end if;
    if p_wait is not null then perform "fenced_ledger".bound_wait(p_wait); end if;
    perform 1 from "fenced_ledger".partition x where x.name = p_name for no key update;
    if not found and p_above is distinct from 9223372036854775807 then
        -- As a first claim: it locks by its insert, and is completed below.
        insert into "fenced_ledger".partition
            (name, generation, holder, acquisition, ttl, expires_at, renewals, recorded_at, head, chain, ledger)
            select p_name, 0, p_operator, p_acquisition, 3000000, -9223372036854775808, 0, -9223372036854775808, 0,
                "fenced_ledger".chain_start(g.id, p_name), g.id
            from "fenced_ledger".ledger g where g.one
            on conflict do nothing;
        if not found then
            perform 1 from "fenced_ledger".partition x where x.name = p_name for no key update;
        end if;
    end if;
    clock_at := "fenced_ledger".clock();
    select * into s from "fenced_ledger".state(p_name, p_acquisition);
    select r.head, r.chain into kept from "fenced_ledger".partition r where r.id = s.id;
    select l.position into last from "fenced_ledger".log l where l.partition = s.id order by l.position desc limit 1;
    last := coalesce(last, 0);
    select l.position, l.generation, l.recorded_at, l.chain into t from "fenced_ledger".log l
        where l.partition = s.id and l.first is not null order by l.position desc limit 1;
    select l.* into a from "fenced_ledger".log l
        where l.partition + 0 = s.id and l.kind = '$advanced' and l.acquisition = p_acquisition limit 1;
    if current_setting('transaction_isolation') <> 'read committed' then
        perform "fenced_ledger".assert_fresh(s.id, last, p_name);
    end if;
    judged_at := greatest(clock_at, s.recorded_at, t.recorded_at);
    verdict := case
        when a.position is not null then case
            when a.holder = p_operator and (a.payload->>'above')::bigint is not distinct from p_above
                and a.payload->>'reason' = p_reason then 'Replay'
            else 'AcquisitionSpent' end
        when s.e_last is not null then 'AcquisitionSpent'
        when greatest(p_above, s.generation, t.generation) = 9223372036854775807 or last = 9223372036854775807
            then 'GenerationExhausted'
        else 'Granted' end;
    if verdict = 'Granted' then
        next := greatest(p_above, s.generation, t.generation) + 1;
        -- What the log lost is added to the renewals, so that the revision does not go back (J2).
        counted := s.renewals + greatest(kept.head - last, 0);
        -- The bytes that `OwnEvent` of ledger-core writes.
        body := '{"above":' || coalesce(p_above::text, 'null') || ',"lease":' || case when s.generation = 0 then 'null' else
                '{"holder":' || to_json(s.holder) || ',"generation":' || s.generation || ',"acquisition":"' || s.acquisition
                || '","head":' || kept.head || ',"chain":"' || encode(kept.chain, 'hex') || '"}' end
            || ',"log":' || case when t.position is null then 'null' else
                '{"generation":' || t.generation || ',"position":' || t.position || ',"chain":"' || encode(t.chain, 'hex')
                || '"}' end
            || ',"reason":' || to_json(p_reason) || '}';
        digest := "fenced_ledger".chain_content(array['$advanced'], array[body], array['{}']);
        link := "fenced_ledger".chain_next(coalesce(t.chain, "fenced_ledger".chain_start(s.ledger, p_name)), s.ledger, p_name,
            next, last + 1, last + 1, judged_at, p_acquisition, p_operator, null, digest);
        insert into "fenced_ledger".log (partition, position, first, generation, recorded_at, entry_id, acquisition, holder,
                content, chain, kind, metadata, payload)
            values (s.id, last + 1, last + 1, next, judged_at, null, p_acquisition, p_operator,
                digest, link, '$advanced', '{}', body::json);
        update "fenced_ledger".partition r
            set generation = next, holder = p_operator, acquisition = p_acquisition, expires_at = judged_at,
                vacancy = 'advanced', vacancy_reason = p_reason, renewals = counted, recorded_at = judged_at,
                head = last + 1, chain = link
            where r.id = s.id;
        return row(verdict, next, p_operator, p_acquisition, s.ttl, judged_at, 'advanced', p_reason,
        judged_at, last + 1, link, judged_at, last + 1 + counted, clock_at < judged_at,
        null, null, null, null, null, null, null, null, null,
        null, null)::"fenced_ledger".answer;
    end if;
    -- Only a replay tells of an entry; what a refusal would tell of is an append's (J3).
    if verdict <> 'Replay' then
        select l.* into a from "fenced_ledger".log l where false;
    end if;
    return row(verdict, s.generation, s.holder, s.acquisition, s.ttl, s.expires_at, s.vacancy, s.vacancy_reason,
        s.recorded_at, s.head, s.chain, judged_at, s.revision, clock_at < judged_at,
        a.entry_id, a.first, a.generation, a.holder, a.acquisition, a.recorded_at, a.content, a.chain, a.position,
        null, null)::"fenced_ledger".answer;
end
$$;

-- E2, T2: keeps the record of a refusal that a caller's transaction carried out of itself. What it says is the caller's word:
-- evidence is outside of the chain (E5), and who may append may write it.
--
-- That transaction may have taken the time of an expiry back with it. So that is stored here: by the schema's clock, read
-- under the partition's lock, as in `append`, and not by the caller's word.
create or replace function "fenced_ledger".record_rejection(
    p_name text, p_generation bigint, p_operation text, p_reason text, p_holder text, p_presented bigint,
    p_remark text, p_acquisition uuid, p_append uuid, p_current_holder text, p_current_acquisition uuid,
    p_current_expires_at bigint, p_revision bigint, p_at bigint, p_wait integer
) returns text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off as
$$
#variable_conflict error
declare
    scope bigint;
    clock_at bigint;
begin
    if p_wait is not null then perform "fenced_ledger".bound_wait(p_wait); end if;
    if p_generation is null then
        scope := 0;
    else
        select x.id into scope from "fenced_ledger".partition x
            where x.name = p_name and p_generation between 1 and x.generation;
        -- A record of a partition or a generation that this ledger never had.
        if scope is null then return null; end if;
        if p_reason = 'Expired' then
            perform 1 from "fenced_ledger".partition x where x.id = scope
                and not "fenced_ledger".visibly_ended(p_generation, x.generation, x.vacancy, x.recorded_at, x.expires_at)
                for no key update;
            if found then
                clock_at := "fenced_ledger".clock();
                update "fenced_ledger".partition x set recorded_at = clock_at
                    where x.id = scope and x.generation = p_generation and x.vacancy is null
                        and x.recorded_at < x.expires_at and x.expires_at <= clock_at;
            end if;
        end if;
    end if;
    return "fenced_ledger".refuse(scope, p_name, coalesce(p_generation, 0), p_operation, p_reason, p_holder, p_presented,
        p_remark, p_acquisition, p_append, p_current_holder, p_current_acquisition, p_current_expires_at, p_revision,
        p_at, false);
end
$$;

-- E2, E3: counts refused appends whose records a session knows to be stored, so many of a key, each key with the facts of
-- its last refusal: all of them or, with an error, none. What they say is the caller's word, as in `record_rejection`.
--
-- In the order of the records' slots: sessions that count at once wait for each other in one order. Not flushed where it
-- is a transaction of its own and all are repeats: a record that is gone, since the store went back in time, is the first
-- of its key again.
--
-- LIMIT: one look-up by key for each, whatever the size of the tables was when it was planned.
create or replace function "fenced_ledger".count_rejections(
    p_names text[], p_generations bigint[], p_reasons text[], p_holders text[], p_presented bigint[], p_remarks text[],
    p_acquisitions uuid[], p_appends uuid[], p_current_holders text[], p_current_acquisitions uuid[],
    p_current_expires_at bigint[], p_revisions bigint[], p_at bigint[], p_counts bigint[], p_wait integer
) returns bigint
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off
    set plan_cache_mode = force_generic_plan as
$$
#variable_conflict error
declare
    x record;
    lazy boolean := "fenced_ledger".lone();
    keys integer := 0;
    counted bigint := 0;
    note text;
begin
    if p_wait is not null then perform "fenced_ledger".bound_wait(p_wait); end if;
    for x in
        select p.id, coalesce(r.slot, o.slot) as slot, u.*
        from unnest(p_names, p_generations, p_reasons, p_holders, p_presented, p_remarks, p_acquisitions, p_appends,
                p_current_holders, p_current_acquisitions, p_current_expires_at, p_revisions, p_at, p_counts)
            u (name, generation, reason, holder, presented, remark, acquisition, append, current_holder,
                current_acquisition, current_expires_at, revision, at, count)
        -- None of a generation that this ledger never had.
        cross join lateral (
            select p.id from "fenced_ledger".partition p where p.name = u.name and u.generation between 1 and p.generation limit 1) p
        left join lateral (
            select r.slot from "fenced_ledger".rejection r where r.scope = p.id and r.generation = u.generation
                and r.key = "fenced_ledger".rejection_key(
                    'Append', u.reason, u.presented, u.holder, null, nullif(u.remark, ''))
            limit 1) r on true
        left join lateral (
            select o.slot from "fenced_ledger".rejection o where o.scope = p.id and o.generation = u.generation
                and o.slot = 257
            limit 1) o on r.slot is null
        where u.count > 0
        order by p.id, u.generation, coalesce(r.slot, o.slot)
    loop
        note := "fenced_ledger".refuse(x.id, x.name, x.generation, 'Append', x.reason, x.holder, x.presented,
            nullif(x.remark, ''), x.acquisition, x.append, x.current_holder, x.current_acquisition,
            x.current_expires_at, x.revision, x.at, false, x.count);
        -- Of the overflow record the first is Counted too.
        lazy := lazy and note = 'Counted' and x.slot is not null;
        keys := keys + 1;
        counted := counted + least(x.count, 9223372036854775807 - counted);
    end loop;
    if keys <> cardinality(p_names) then
        raise exception 'not refusals of this ledger' using errcode = '22023';
    end if;
    if lazy then perform set_config('synchronous_commit', 'off', true); end if;
    return counted;
end
$$;

-- D1, T2, J2: the state of a partition, committed at one moment; no lock.
create or replace function "fenced_ledger".observe(p_name text) returns "fenced_ledger".answer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off as
$$
#variable_conflict error
declare
    s record;
    clock_at bigint;
begin
    select * into s from "fenced_ledger".state(p_name, null);
    clock_at := "fenced_ledger".clock();
    return row('Observed', s.generation, s.holder, s.acquisition, s.ttl, s.expires_at, s.vacancy, s.vacancy_reason,
        s.recorded_at, s.head, s.chain, greatest(clock_at, s.recorded_at), s.revision, clock_at < s.recorded_at,
        null, null, null, null, null, null, null, null, null,
        null, null)::"fenced_ledger".answer;
end
$$;

-- U2: what became of an append, or of a claim by its acquisition. One statement and so one snapshot; no lock.
create or replace function "fenced_ledger".fate(p_name text, p_id uuid, p_generation bigint) returns "fenced_ledger".answer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off as
$$
#variable_conflict error
declare
    s record;
begin
    select * into s from "fenced_ledger".state(p_name, p_id);
    return row(case
            when s.e_last is not null then 'Recorded'
            when "fenced_ledger".visibly_ended(p_generation, s.generation, s.vacancy, s.recorded_at, s.expires_at) then 'Never'
            else 'Undecided' end, s.generation, s.holder, s.acquisition, s.ttl, s.expires_at, s.vacancy, s.vacancy_reason,
        s.recorded_at, s.head, s.chain, s.recorded_at, s.revision, false,
        s.e_id, s.e_first, s.e_generation, s.e_holder, s.e_acquisition, s.e_recorded_at, s.e_content, s.e_chain, s.e_last,
        null, null)::"fenced_ledger".answer;
end
$$;

-- The names of the partitions that were ever claimed, in the order of their bytes (COLLATE "C"). D1.
create or replace function "fenced_ledger".partitions(p_after text, p_limit integer) returns table (name text)
language plpgsql stable set search_path = pg_catalog, pg_temp set enable_seqscan = off as
$$
#variable_conflict use_column
begin
    return query select x.name from "fenced_ledger".partition x
        where x.name > coalesce(p_after, '') collate "C" order by x.name limit p_limit;
end
$$;

-- E1 to E3: rejection records after a slot, in the order of their slots. For a partition those from before its first claim
-- stand first; for NULL all of the budget of never-claimed partitions.
create or replace function "fenced_ledger".rejections(p_name text, p_generation bigint, p_slot integer, p_limit integer)
returns table (
    generation bigint, slot integer, name text, operation text, reason text, holder text, presented bigint,
    remark text, acquisition uuid, append_id uuid, current_holder text, current_acquisition uuid,
    current_expires_at bigint, revision bigint, count bigint, first_at bigint, last_at bigint
)
language plpgsql stable set search_path = pg_catalog, pg_temp set enable_seqscan = off as
$$
#variable_conflict use_column
declare
    found_scope bigint := (select x.id from "fenced_ledger".partition x where x.name = p_name);
begin
    return query
        select r.generation, r.slot, coalesce(r.name, case when r.scope <> 0 then p_name end), r.operation, r.reason,
            r.holder, r.presented, r.remark, r.acquisition, r.append_id, r.current_holder, r.current_acquisition,
            r.current_expires_at, r.revision, r.count, r.first_at, r.last_at
        from "fenced_ledger".rejection r
        where ((r.scope = 0 and (p_name is null or r.name = p_name)) or r.scope = found_scope)
            and (r.generation, r.slot) > (p_generation, p_slot)
        order by r.generation, r.slot limit p_limit;
end
$$;

-- A1, S2, U3: `append` for connections of a pool that is not the library's own. Its COMMIT fails inside a transaction that
-- somebody else has left open (2D000), where the function would be answered and then rolled back.
--
-- No SECURITY DEFINER and no SET: either forbids the COMMIT. It only calls the function, which has both.
create or replace procedure "fenced_ledger".append_and_commit(
    p_name text, p_generation bigint, p_acquisition uuid, p_holder text, p_id uuid, p_expected bigint,
    p_content bytea, p_kinds text[], p_payloads text[], p_metadata text[], p_remark text, p_own boolean,
    p_idle integer, p_wait integer,
    out verdict text, out generation bigint, out holder text, out acquisition uuid,
    out ttl bigint, out expires_at bigint, out vacancy text, out vacancy_reason text, out recorded_at bigint,
    out head bigint, out chain bytea, out judged_at bigint, out revision bigint, out clock_behind boolean,
    out entry_id uuid, out entry_first bigint, out entry_generation bigint, out entry_holder text,
    out entry_acquisition uuid, out entry_recorded_at bigint, out entry_content bytea, out entry_chain bytea,
    out entry_last bigint, out record text, out successor text
) language plpgsql as
$$
begin
    perform set_config('fenced.own', 'on', true);
    select f.* into
        verdict, generation, holder, acquisition, ttl, expires_at, vacancy, vacancy_reason, recorded_at, head,
        chain, judged_at, revision, clock_behind, entry_id, entry_first, entry_generation, entry_holder,
        entry_acquisition, entry_recorded_at, entry_content, entry_chain, entry_last, record, successor
        from "fenced_ledger".append(
            p_name, p_generation, p_acquisition, p_holder, p_id, p_expected, p_content, p_kinds, p_payloads,
            p_metadata, p_remark, p_own, p_idle, p_wait) f;
    commit;
end
$$;

-- C1, S2, U3: `claim` with a COMMIT of its own: see append_and_commit.sql.
--
-- No SECURITY DEFINER and no SET: either forbids the COMMIT. It only calls the function, which has both.
create or replace procedure "fenced_ledger".claim_and_commit(
    p_name text, p_acquisition uuid, p_holder text, p_ttl bigint, p_observed bigint,
    p_observed_acquisition uuid, p_own boolean, p_wait integer, out verdict text, out generation bigint,
    out holder text, out acquisition uuid, out ttl bigint, out expires_at bigint, out vacancy text,
    out vacancy_reason text, out recorded_at bigint, out head bigint, out chain bytea, out judged_at bigint,
    out revision bigint, out clock_behind boolean, out entry_id uuid, out entry_first bigint,
    out entry_generation bigint, out entry_holder text, out entry_acquisition uuid,
    out entry_recorded_at bigint, out entry_content bytea, out entry_chain bytea, out entry_last bigint,
    out record text, out successor text
) language plpgsql as
$$
begin
    perform set_config('fenced.own', 'on', true);
    select f.* into
        verdict, generation, holder, acquisition, ttl, expires_at, vacancy, vacancy_reason, recorded_at, head,
        chain, judged_at, revision, clock_behind, entry_id, entry_first, entry_generation, entry_holder,
        entry_acquisition, entry_recorded_at, entry_content, entry_chain, entry_last, record, successor
        from "fenced_ledger".claim(
            p_name, p_acquisition, p_holder, p_ttl, p_observed, p_observed_acquisition, p_own, p_wait) f;
    commit;
end
$$;

-- R1, S2, U3: `renew` with a COMMIT of its own: see append_and_commit.sql.
--
-- No SECURITY DEFINER and no SET: either forbids the COMMIT. It only calls the function, which has both.
create or replace procedure "fenced_ledger".renew_and_commit(
    p_name text, p_generation bigint, p_acquisition uuid, p_holder text, p_ttl bigint, p_own boolean,
    p_wait integer, out verdict text, out generation bigint, out holder text, out acquisition uuid,
    out ttl bigint, out expires_at bigint, out vacancy text, out vacancy_reason text, out recorded_at bigint,
    out head bigint, out chain bytea, out judged_at bigint, out revision bigint, out clock_behind boolean,
    out entry_id uuid, out entry_first bigint, out entry_generation bigint, out entry_holder text,
    out entry_acquisition uuid, out entry_recorded_at bigint, out entry_content bytea, out entry_chain bytea,
    out entry_last bigint, out record text, out successor text
) language plpgsql as
$$
begin
    perform set_config('fenced.own', 'on', true);
    select f.* into
        verdict, generation, holder, acquisition, ttl, expires_at, vacancy, vacancy_reason, recorded_at, head,
        chain, judged_at, revision, clock_behind, entry_id, entry_first, entry_generation, entry_holder,
        entry_acquisition, entry_recorded_at, entry_content, entry_chain, entry_last, record, successor
        from "fenced_ledger".renew(
            p_name, p_generation, p_acquisition, p_holder, p_ttl, p_own, p_wait) f;
    commit;
end
$$;

-- R3, S2, U3: `release` with a COMMIT of its own: see append_and_commit.sql.
--
-- No SECURITY DEFINER and no SET: either forbids the COMMIT. It only calls the function, which has both.
create or replace procedure "fenced_ledger".release_and_commit(
    p_name text, p_generation bigint, p_acquisition uuid, p_holder text, p_own boolean, p_wait integer,
    out verdict text, out generation bigint, out holder text, out acquisition uuid, out ttl bigint,
    out expires_at bigint, out vacancy text, out vacancy_reason text, out recorded_at bigint, out head bigint,
    out chain bytea, out judged_at bigint, out revision bigint, out clock_behind boolean, out entry_id uuid,
    out entry_first bigint, out entry_generation bigint, out entry_holder text, out entry_acquisition uuid,
    out entry_recorded_at bigint, out entry_content bytea, out entry_chain bytea, out entry_last bigint,
    out record text, out successor text
) language plpgsql as
$$
begin
    perform set_config('fenced.own', 'on', true);
    select f.* into
        verdict, generation, holder, acquisition, ttl, expires_at, vacancy, vacancy_reason, recorded_at, head,
        chain, judged_at, revision, clock_behind, entry_id, entry_first, entry_generation, entry_holder,
        entry_acquisition, entry_recorded_at, entry_content, entry_chain, entry_last, record, successor
        from "fenced_ledger".release(
            p_name, p_generation, p_acquisition, p_holder, p_own, p_wait) f;
    commit;
end
$$;

-- C3, S2, U3: `end_tenure` with a COMMIT of its own: see append_and_commit.sql.
--
-- No SECURITY DEFINER and no SET: either forbids the COMMIT. It only calls the function, which has both.
create or replace procedure "fenced_ledger".end_tenure_and_commit(
    p_name text, p_observed bigint, p_observed_acquisition uuid, p_reason text, p_wait integer,
    out verdict text, out generation bigint, out holder text, out acquisition uuid, out ttl bigint,
    out expires_at bigint, out vacancy text, out vacancy_reason text, out recorded_at bigint, out head bigint,
    out chain bytea, out judged_at bigint, out revision bigint, out clock_behind boolean, out entry_id uuid,
    out entry_first bigint, out entry_generation bigint, out entry_holder text, out entry_acquisition uuid,
    out entry_recorded_at bigint, out entry_content bytea, out entry_chain bytea, out entry_last bigint,
    out record text, out successor text
) language plpgsql as
$$
begin
    select f.* into
        verdict, generation, holder, acquisition, ttl, expires_at, vacancy, vacancy_reason, recorded_at, head,
        chain, judged_at, revision, clock_behind, entry_id, entry_first, entry_generation, entry_holder,
        entry_acquisition, entry_recorded_at, entry_content, entry_chain, entry_last, record, successor
        from "fenced_ledger".end_tenure(
            p_name, p_observed, p_observed_acquisition, p_reason, p_wait) f;
    commit;
end
$$;

-- I4, S2, U3: `advance` with a COMMIT of its own: see append_and_commit.sql.
--
-- No SECURITY DEFINER and no SET: either forbids the COMMIT. It only calls the function, which has both.
create or replace procedure "fenced_ledger".advance_and_commit(
    p_name text, p_acquisition uuid, p_operator text, p_above bigint, p_reason text, p_wait integer,
    out verdict text, out generation bigint, out holder text, out acquisition uuid, out ttl bigint,
    out expires_at bigint, out vacancy text, out vacancy_reason text, out recorded_at bigint, out head bigint,
    out chain bytea, out judged_at bigint, out revision bigint, out clock_behind boolean, out entry_id uuid,
    out entry_first bigint, out entry_generation bigint, out entry_holder text, out entry_acquisition uuid,
    out entry_recorded_at bigint, out entry_content bytea, out entry_chain bytea, out entry_last bigint,
    out record text, out successor text
) language plpgsql as
$$
begin
    select f.* into
        verdict, generation, holder, acquisition, ttl, expires_at, vacancy, vacancy_reason, recorded_at, head,
        chain, judged_at, revision, clock_behind, entry_id, entry_first, entry_generation, entry_holder,
        entry_acquisition, entry_recorded_at, entry_content, entry_chain, entry_last, record, successor
        from "fenced_ledger".advance(
            p_name, p_acquisition, p_operator, p_above, p_reason, p_wait) f;
    commit;
end
$$;

-- E2, S2: `record_rejection` with a COMMIT of its own: see append_and_commit.sql.
create or replace procedure "fenced_ledger".record_rejection_and_commit(
    p_name text, p_generation bigint, p_operation text, p_reason text, p_holder text, p_presented bigint,
    p_remark text, p_acquisition uuid, p_append uuid, p_current_holder text, p_current_acquisition uuid,
    p_current_expires_at bigint, p_revision bigint, p_at bigint, p_wait integer, out record text
) language plpgsql as
$$
begin
    record := "fenced_ledger".record_rejection(p_name, p_generation, p_operation, p_reason, p_holder, p_presented,
        p_remark, p_acquisition, p_append, p_current_holder, p_current_acquisition, p_current_expires_at, p_revision,
        p_at, p_wait);
    commit;
end
$$;

-- E3, S2: `count_rejections` for connections of a pool that is not the library's own. See append_and_commit.sql.
create or replace procedure "fenced_ledger".count_rejections_and_commit(
    p_names text[], p_generations bigint[], p_reasons text[], p_holders text[], p_presented bigint[], p_remarks text[],
    p_acquisitions uuid[], p_appends uuid[], p_current_holders text[], p_current_acquisitions uuid[],
    p_current_expires_at bigint[], p_revisions bigint[], p_at bigint[], p_counts bigint[], p_wait integer,
    out counted bigint
) language plpgsql as
$$
begin
    perform set_config('fenced.own', 'on', true);
    counted := "fenced_ledger".count_rejections(p_names, p_generations, p_reasons, p_holders, p_presented, p_remarks,
        p_acquisitions, p_appends, p_current_holders, p_current_acquisitions, p_current_expires_at, p_revisions, p_at,
        p_counts, p_wait);
    commit;
end
$$;

-- S5: new functions may be called by everybody, so that is taken back; what a role may call is granted by name.
revoke all on all routines in schema "fenced_ledger" from public;

commit;
