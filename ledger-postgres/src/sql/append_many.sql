-- A1 to A3, A5 to A7, T2 to T4, G4, J1, J2, E4, I1: the appends that plainly hold, of many partitions and several of each,
-- judged one by one and written in one call.
--
-- It grants, or it decides nothing: whatever is not plainly granted (a refusal, a replay, a conflict of positions) is
-- left to `append`, so that evidence, the recording of an expiry and J3 have one home. A member that is left out uses up
-- nothing and holds back no other. What is left out because another session holds its partition is named in `held`.
--
-- No wait for a held partition: one that is held, or that would only be refused, is skipped and not locked. Then, in a
-- statement of its own and so in a snapshot at least as new as the locks: the partitions, the use of the ids, and for
-- each append a reading of the clock of its own (T4). Then each partition's appends in their order, head and chain
-- carried from one to the next. An error undoes all of them.
--
-- A slot is a partition with the lease that is presented for it; `p_slots` gives the slot of each append, and `p_counts`
-- how many of the events are its own. No id may be in one call twice. Above read committed nothing is decided here
-- (see assert_fresh.sql).
create function fenced_ledger.append_many(
    p_names text[], p_generations bigint[], p_acquisitions uuid[], p_holders text[], p_slots integer[], p_ids uuid[],
    p_expected bigint[], p_contents bytea[], p_counts integer[], p_kinds text[], p_payloads text[], p_metadata text[],
    p_wait integer, out granted bigint[], out lasts bigint[], out times bigint[], out revisions bigint[],
    out behind boolean[], out chains bytea[], out held bigint[]
)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off as
$$
#variable_conflict error
declare
    locked bigint[];
    owners bigint[];
begin
    -- As in `append`: for whoever calls by hand (S5).
    if array_position(p_ids, null) > 0 or array_position(p_contents, null) > 0
        or cardinality(p_ids) <> cardinality(p_slots) or cardinality(p_ids) <> cardinality(p_contents)
        or cardinality(p_ids) <> cardinality(p_counts) or cardinality(p_ids) <> cardinality(p_expected)
        or 1 > any (p_counts) or (select sum(u.n) from unnest(p_counts) u (n)) is distinct from cardinality(p_kinds)
        or cardinality(p_payloads) <> cardinality(p_kinds) or cardinality(p_metadata) <> cardinality(p_kinds)
        or strpos(E'\n' || array_to_string(p_kinds, E'\n'), E'\n$') > 0
    then
        raise exception 'not appends' using errcode = '22023';
    end if;
    if current_setting('transaction_isolation') <> 'read committed' then return; end if;
    if p_wait is not null then perform set_config('lock_timeout', p_wait::text, true); end if;
    select array_agg(u.slot) into locked
        from unnest(p_names, p_generations, p_acquisitions, p_holders)
            with ordinality u (name, generation, acquisition, holder, slot)
        -- LIMIT, here and below: one look-up by key for each, whatever the size of the tables was when it was planned.
        cross join lateral (
            select 1 from fenced_ledger.partition x where x.name = u.name and x.generation = u.generation
                and x.acquisition = u.acquisition and x.holder = u.holder and x.vacancy is null
                and x.recorded_at < x.expires_at
            limit 1 for no key update skip locked) x;
    select array_agg(u.nth order by u.nth) into owners
        from unnest(p_counts) with ordinality u (n, nth) cross join generate_series(1, u.n);
    with recursive p as materialized (
        select u.slot, u.slot = any (locked) is true as locked, s.ended_at < s.expires_at as current, s.id, s.ledger, u.name,
            s.generation, s.acquisition, s.holder, s.expires_at, s.renewals, s.head, s.chain, s.recorded_at
        from unnest(p_names, p_generations, p_acquisitions, p_holders)
            with ordinality u (name, generation, acquisition, holder, slot)
        cross join lateral (select * from fenced_ledger.state(u.name, null) limit 1) s
        where not s.diverged and s.generation = u.generation and s.acquisition = u.acquisition
            and s.holder = u.holder and s.vacancy is null
    ), a as materialized (
        select u.nth, row_number() over (partition by u.of order by u.nth) as rank,
            u.upto, u.id as entry_id, u.expected, u.content, u.n,
            fenced_ledger.clock() as clock_at, e.known is not null as known, p.*
        from (
            -- Where its events end among all that were sent: counted before any append is left out.
            select i.*, sum(i.n) over (order by i.nth) as upto
            from unnest(p_slots, p_ids, p_expected, p_contents, p_counts)
                with ordinality i (of, id, expected, content, n, nth)) u
        join p on p.slot = u.of and p.locked
        left join lateral (
            select 1 as known from fenced_ledger.log l where l.partition + 0 = p.id and l.entry_id = u.id limit 1) e on true
    ), r (slot, rank, nth, granted, head, chain, recorded_at, behind) as (
        select p.slot, 0::bigint, 0::bigint, false, p.head, p.chain, p.recorded_at, false from p where p.locked
        union all
        select r.slot, a.rank, a.nth, j.granted,
            case when j.granted then r.head + a.n else r.head end,
            case when j.granted then fenced_ledger.chain_next(r.chain, a.ledger, a.name, a.generation, r.head + 1,
                r.head + a.n, greatest(a.clock_at, r.recorded_at), a.acquisition, a.holder, a.entry_id, a.content)
                else r.chain end,
            case when j.granted then greatest(a.clock_at, r.recorded_at) else r.recorded_at end,
            a.clock_at < r.recorded_at
        from r join a on a.slot = r.slot and a.rank = r.rank + 1
        -- Once: pulled up, it would be evaluated in each of the expressions above.
        cross join lateral (
            select greatest(a.clock_at, r.recorded_at) < a.expires_at and not a.known
                and coalesce(a.expected = r.head, true) and r.head <= 9223372036854775807 - a.n as granted offset 0) j
    ), w as (
        insert into fenced_ledger.log (partition, position, first, generation, recorded_at, entry_id, acquisition,
                holder, content, chain, kind, metadata, payload)
            select a.id, r.head - (a.upto - e.i), case when e.i = a.upto then r.head - a.n + 1 end,
                case when e.i = a.upto then a.generation end, case when e.i = a.upto then r.recorded_at end,
                case when e.i = a.upto then a.entry_id end, case when e.i = a.upto then a.acquisition end,
                case when e.i = a.upto then a.holder end, case when e.i = a.upto then a.content end,
                case when e.i = a.upto then r.chain end, e.k, e.m::json, e.p::json
            from r join a on a.nth = r.nth
            join unnest(owners, p_kinds, p_payloads, p_metadata) with ordinality e (of, k, p, m, i) on e.of = r.nth
            where r.granted
    )
    select array_agg(r.nth), array_agg(r.head), array_agg(r.recorded_at), array_agg(r.head + a.renewals),
        array_agg(r.behind), array_agg(r.chain),
        (select array_agg(p.slot) from p where p.current and not p.locked)
        into granted, lasts, times, revisions, behind, chains, held
        from r join a on a.nth = r.nth where r.granted;
end
$$;
