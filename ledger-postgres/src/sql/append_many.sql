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
create function fenced_ledger.append_many(
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
            where u.n <= 10000 and fenced_ledger.is_id(u.id) and octet_length(u.content) = 32)
            is distinct from cardinality(p_kinds)
        or cardinality(p_payloads) <> cardinality(p_kinds) or cardinality(p_metadata) <> cardinality(p_kinds)
        or not fenced_ledger.is_kind(p_kinds[1])
        or exists (select from unnest(p_kinds) u (kind) where u.kind <> p_kinds[1] and not fenced_ledger.is_kind(u.kind))
    then
        raise exception 'not appends' using errcode = '22023';
    end if;
    if current_setting('transaction_isolation') <> 'read committed' then return; end if;
    if p_wait is not null then perform fenced_ledger.bound_wait(p_wait); end if;
    select array_agg(p.id), array_agg(p.ledger), array_agg(p.expires_at), array_agg(p.renewals),
            array_agg(p.recorded_at), array_agg(p.head), array_agg(p.chain)
        into ids, ledgers, expiries, renewals, recorded, heads, tips
        from unnest(p_names, p_generations, p_acquisitions, p_holders) u (name, generation, acquisition, holder)
        -- LIMIT, here and below: one look-up by key for each, whatever the size of the tables was when it was planned.
        left join lateral (
            select p.id, p.ledger, p.expires_at, p.renewals, p.recorded_at, p.head, p.chain
            from fenced_ledger.partition p where p.name = u.name and p.generation = u.generation
                and p.acquisition = u.acquisition and p.holder = u.holder and p.vacancy is null
                and p.recorded_at < p.expires_at
            limit 1 for no key update skip locked) p on true;
    if array_position(ids, null) > 0 then
        select array_agg(u.slot) into held from unnest(p_names, p_generations, p_acquisitions, p_holders)
            with ordinality u (name, generation, acquisition, holder, slot)
        cross join lateral (
            select 1 from fenced_ledger.partition p where p.name = u.name and p.generation = u.generation
                and p.acquisition = u.acquisition and p.holder = u.holder and p.vacancy is null
                and p.recorded_at < p.expires_at
            limit 1) p
        where ids[u.slot] is null;
    end if;
    if cardinality(p_names) = n then
        select array_agg(q.nth), array_agg(q.last), array_agg(q.judged_at), array_agg(q.last + renewals[q.nth]),
                array_agg(q.clock_at < q.seen), array_agg(fenced_ledger.chain_next(q.chain, ledgers[q.nth],
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
                    from fenced_ledger.log l where l.partition = m.id and l.position >= p_near[m.nth]
                    order by l.position desc limit 1) t
                cross join lateral (select fenced_ledger.clock() as clock_at offset 0) c
                where m.slot = m.nth
                    and not fenced_ledger.diverged(p_generations[m.nth], p_holders[m.nth], p_acquisitions[m.nth], null,
                        heads[m.nth], tips[m.nth], t.position, t.entry_id, t.generation, t.holder, t.acquisition,
                        t.chain)
                    and (select 1 from fenced_ledger.log l where l.partition + 0 = m.id and l.entry_id = p_ids[m.nth]
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
                select l.position, l.chain, l.recorded_at, fenced_ledger.diverged(u.generation, u.holder, u.acquisition,
                    null, u.head, u.chain, l.position, l.entry_id, l.generation, l.holder, l.acquisition, l.chain)
                    as diverged
                from fenced_ledger.log l where l.partition = u.id and l.position >= u.near
                order by l.position desc limit 1) t on true;
        select array_agg(u.nth) into known from unnest(p_slots, p_ids) with ordinality u (of, id, nth)
            cross join lateral (
                select 1 from fenced_ledger.log l where l.partition + 0 = ids[u.of] and l.entry_id = u.id limit 1) e;
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
                before := fenced_ledger.chain_partition(ledgers[slot], p_names[slot], p_generations[slot]);
                within := fenced_ledger.chain_tenure(p_acquisitions[slot], p_holders[slot]);
            end if;
            clock_at := fenced_ledger.clock();
            continue when head is null or nth = any (known) or greatest(clock_at, seen) >= expiries[slot]
                or p_expected[nth] <> head or head > 9223372036854775807 - events;
            behind := behind || (clock_at < seen);
            seen := greatest(clock_at, seen);
            tip := fenced_ledger.chain_link(tip, before, head + 1, head + events, seen, within, p_ids[nth],
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
    insert into fenced_ledger.log (partition, position, first, generation, recorded_at, entry_id, acquisition,
            holder, content, chain, kind, metadata, payload)
        select ids[s.slot], g.last, g.last - p_counts[g.nth] + 1, p_generations[s.slot], g.time, p_ids[g.nth],
            p_acquisitions[s.slot], p_holders[s.slot], p_contents[g.nth], g.chain, p_kinds[s.upto],
            p_metadata[s.upto]::json, p_payloads[s.upto]::json
        from unnest(granted, lasts, times, chains) g (nth, last, "time", chain)
        cross join lateral (select p_slots[g.nth], coalesce(ends[g.nth], g.nth)) s (slot, upto);
    -- The events before an entry's last one.
    if ends is not null then
        insert into fenced_ledger.log (partition, position, kind, metadata, payload)
            select ids[s.slot], g.last - (s.upto - i), p_kinds[i], p_metadata[i]::json, p_payloads[i]::json
            from unnest(granted, lasts) g (nth, last)
            cross join lateral (select p_slots[g.nth], ends[g.nth]) s (slot, upto)
            cross join generate_series(s.upto - p_counts[g.nth] + 1, s.upto - 1) i;
    end if;
end
$$;
