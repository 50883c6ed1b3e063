-- A1 to A3, A5 to A7, T2 to T4, G4, J1, J2, E4, I1: the appends that plainly hold, of many partitions and several of each,
-- judged one by one and written in one call.
--
-- It grants, or it decides nothing: whatever is not plainly granted (a refusal, a replay, a conflict of positions) is
-- left to `append`, so that evidence, the recording of an expiry and J3 have one home. A member that is left out uses up
-- nothing and holds back no other. What is left out because another session holds its partition is named in `held`.
--
-- No wait for a held partition: one that is held, or that would only be refused, is skipped and not locked. Then, in
-- statements of their own and so in snapshots at least as new as the locks: the newest entries and the use of the ids.
-- Then the appends in their order, each with a reading of the clock of its own (T4), head and chain of its partition
-- carried from one to the next. Then their events, by one statement. An error undoes all of them.
--
-- Generic plans: for short arrays the planner would take each plan anew to be the cheaper one, and planning costs more
-- than all the rest. A loop over arrays and not one statement with a recursive query: that one took 0.3 ms to start, and 16 to 25 us more
-- for each append.
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
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off
    set plan_cache_mode = force_generic_plan as
$$
#variable_conflict error
declare
    -- By slot; NULL where it is not granted anything. Head, chain and recorded time move on with each append.
    ids bigint[] := array_fill(null::bigint, array[cardinality(p_names)]);
    expiries bigint[] := ids;
    renewals bigint[] := ids;
    heads bigint[] := ids;
    recorded bigint[] := ids;
    ledgers uuid[] := array_fill(null::uuid, array[cardinality(p_names)]);
    tips bytea[] := array_fill(null::bytea, array[cardinality(p_names)]);
    -- By append: those whose id is in the log.
    known bigint[];
    -- By granted append.
    slots integer[];
    ends integer[];
    locked integer := 0;
    upto integer := 0;
    slot integer;
    clock_at bigint;
    judged_at bigint;
    link bytea;
    x record;
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
    for x in
        select u.slot, p.* from unnest(p_names, p_generations, p_acquisitions, p_holders)
            with ordinality u (name, generation, acquisition, holder, slot)
        -- LIMIT, here and below: one look-up by key for each, whatever the size of the tables was when it was planned.
        cross join lateral (
            select p.id, p.ledger, p.expires_at, p.renewals, p.recorded_at, p.head, p.chain
            from fenced_ledger.partition p where p.name = u.name and p.generation = u.generation
                and p.acquisition = u.acquisition and p.holder = u.holder and p.vacancy is null
                and p.recorded_at < p.expires_at
            limit 1 for no key update skip locked) p
    loop
        locked := locked + 1;
        ids[x.slot] := x.id;
        ledgers[x.slot] := x.ledger;
        expiries[x.slot] := x.expires_at;
        renewals[x.slot] := x.renewals;
        recorded[x.slot] := x.recorded_at;
        heads[x.slot] := x.head;
        tips[x.slot] := x.chain;
    end loop;
    if locked < cardinality(p_names) then
        select array_agg(u.slot) into held from unnest(p_names, p_generations, p_acquisitions, p_holders)
            with ordinality u (name, generation, acquisition, holder, slot)
        cross join lateral (
            select 1 from fenced_ledger.partition p where p.name = u.name and p.generation = u.generation
                and p.acquisition = u.acquisition and p.holder = u.holder and p.vacancy is null
                and p.recorded_at < p.expires_at
            limit 1) p
        where ids[u.slot] is null;
        if locked = 0 then return; end if;
    end if;
    for x in
        select u.slot, t.position, t.chain, t.recorded_at, fenced_ledger.diverged(p_generations[u.slot],
                p_holders[u.slot], p_acquisitions[u.slot], null, heads[u.slot], tips[u.slot],
                t.position, t.entry_id, t.generation, t.holder, t.acquisition, t.chain) as diverged
        from unnest(ids) with ordinality u (id, slot)
        left join lateral (
            select l.position, l.entry_id, l.generation, l.holder, l.acquisition, l.chain, l.recorded_at
            from fenced_ledger.log l where l.partition = u.id order by l.position desc limit 1) t on true
        where u.id is not null
    loop
        if x.diverged then
            ids[x.slot] := null;
        else
            heads[x.slot] := x.position;
            tips[x.slot] := x.chain;
            recorded[x.slot] := greatest(recorded[x.slot], x.recorded_at);
        end if;
    end loop;
    select array_agg(u.nth) into known from unnest(p_slots, p_ids) with ordinality u (of, id, nth)
        cross join lateral (
            select 1 from fenced_ledger.log l where l.partition + 0 = ids[u.of] and l.entry_id = u.id limit 1) e;
    for nth in 1 .. cardinality(p_ids) loop
        slot := p_slots[nth];
        upto := upto + p_counts[nth];
        continue when ids[slot] is null or nth = any (known);
        clock_at := fenced_ledger.clock();
        judged_at := greatest(clock_at, recorded[slot]);
        -- NULL expects nothing.
        continue when judged_at >= expiries[slot] or p_expected[nth] <> heads[slot]
            or heads[slot] > 9223372036854775807 - p_counts[nth];
        link := fenced_ledger.chain_next(tips[slot], ledgers[slot], p_names[slot], p_generations[slot], heads[slot] + 1,
            heads[slot] + p_counts[nth], judged_at, p_acquisitions[slot], p_holders[slot], p_ids[nth], p_contents[nth]);
        behind := behind || (clock_at < recorded[slot]);
        heads[slot] := heads[slot] + p_counts[nth];
        tips[slot] := link;
        recorded[slot] := judged_at;
        slots := slots || slot;
        ends := ends || upto;
        granted := granted || nth::bigint;
        lasts := lasts || heads[slot];
        times := times || judged_at;
        revisions := revisions || heads[slot] + renewals[slot];
        chains := chains || link;
    end loop;
    if granted is null then return; end if;
    insert into fenced_ledger.log (partition, position, first, generation, recorded_at, entry_id, acquisition,
            holder, content, chain, kind, metadata, payload)
        select ids[g.slot], g.last, g.last - p_counts[g.nth] + 1, p_generations[g.slot], g.time, p_ids[g.nth],
            p_acquisitions[g.slot], p_holders[g.slot], p_contents[g.nth], g.chain, p_kinds[g.upto],
            p_metadata[g.upto]::json, p_payloads[g.upto]::json
        from unnest(granted, slots, lasts, times, chains, ends) g (nth, slot, last, "time", chain, upto);
    -- The events before an entry's last one.
    if cardinality(p_kinds) > cardinality(p_ids) then
        insert into fenced_ledger.log (partition, position, kind, metadata, payload)
            select ids[g.slot], g.last - (g.upto - i), p_kinds[i], p_metadata[i]::json, p_payloads[i]::json
            from unnest(granted, slots, lasts, ends) g (nth, slot, last, upto)
            cross join generate_series(g.upto - p_counts[g.nth] + 1, g.upto - 1) i;
    end if;
end
$$;
