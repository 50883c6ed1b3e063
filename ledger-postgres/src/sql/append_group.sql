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
-- writers write to many, one statement does all that. Where one has several, what each adds up to is computed for all of
-- them, and the chain alone is followed one by one. Then their events are written. An error undoes all of them.
--
-- Generic plans: for short arrays the planner would take each plan anew to be the cheaper one, and planning costs more
-- than all the rest. In a loop each expression costs 0.3 us, whatever it is; so loops have few. Arrays are taken apart side
-- by side in a list of columns, as unnest in FROM keeps each of its rows in between. A recursive query took 0.3 ms to
-- start, and 16 to 25 us more for each append.
--
-- A slot is a partition with the lease that is presented for it; `p_slots` gives the slot of each append, and `p_counts`
-- how many of the events are its own. The appends of a slot stand side by side, in the order of the slots. `p_near` has by
-- slot a position that the log has reached, or 0: a look for the newest entry reads all that the index's last page has of
-- the partition from there on, up to 5 us. Where the log ends before it, nothing is granted. No id may be in one call
-- twice. Above read committed nothing is decided here (see assert_fresh.sql).
--
-- What is answered is by append; where it was not granted, its last position is NULL, and the rest says nothing.
create function fenced_ledger.append_group(
    p_names text[], p_generations bigint[], p_acquisitions uuid[], p_holders text[], p_slots integer[], p_ids uuid[],
    p_expected bigint[], p_contents bytea[], p_counts integer[], p_kinds text[], p_payloads text[], p_metadata text[],
    p_near bigint[], p_wait integer, out lasts bigint[], out times bigint[], out revisions bigint[],
    out behind boolean[], out chains bytea[], out held bigint[]
)
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off
    set plan_cache_mode = force_generic_plan as
$$
#variable_conflict error
declare
    n integer := cardinality(p_ids);
    -- By slot, as it is stored; NULL where it is not granted anything.
    ids bigint[];
    generations bigint[];
    acquisitions uuid[];
    holders text[];
    expiries bigint[];
    renewals bigint[];
    recorded bigint[];
    heads bigint[];
    tips bytea[];
    greatest_ids uuid[];
    befores bytea[];
    withins bytea[];
    -- By append: those that are left out, as their id is in the log or another head is expected.
    outs integer[];
    -- By append: how many events of its slot it ends, and the reading of the clock that judges it.
    uptos bigint[];
    clocks bigint[];
    -- By append: the chain value before it, where it is the first of its slot, and the rest of its link.
    starts bytea[];
    links bytea[];
    -- By append: the place of its last event, where one has several.
    ends integer[];
    -- By slot: the head that an append is to expect.
    ahead bigint[];
    head bigint;
    tip bytea;
begin
    -- As in `append`: for whoever calls by hand (S5). No query among the conditions, which would cost each call its start: what
    -- all have in common is looked at once, and contents where one was not granted.
    if (n = cardinality(p_slots) and 1 <= all (p_slots) and cardinality(p_names) >= all (p_slots)
        and '00000000-0000-0000-0000-000000000000' <> all (p_ids)
        and n = cardinality(p_expected) and n = cardinality(p_contents)
        and n = cardinality(p_counts) and 1 <= all (p_counts) and 10000 >= all (p_counts)
        and cardinality(p_payloads) = cardinality(p_kinds) and cardinality(p_metadata) = cardinality(p_kinds)
        and fenced_ledger.is_kind(p_kinds[1])) is not true
    then
        raise exception 'not appends' using errcode = '22023';
    end if;
    if (n = cardinality(p_kinds) and 1 = all (p_counts) and p_kinds[1] = all (p_kinds)) is not true then
        if ((select sum(u.n) from unnest(p_counts) u (n)) = cardinality(p_kinds) and fenced_ledger.are_kinds(p_kinds))
            is not true
        then
            raise exception 'not appends' using errcode = '22023';
        end if;
    end if;
    if p_wait is not null or current_setting('transaction_isolation') <> 'read committed' then
        if current_setting('transaction_isolation') <> 'read committed' then return; end if;
        perform fenced_ledger.bound_wait(p_wait);
    end if;
    select array_agg(p.id), array_agg(p.generation), array_agg(p.acquisition), array_agg(p.holder),
            array_agg(p.expires_at), array_agg(p.renewals), array_agg(p.recorded_at), array_agg(p.head),
            array_agg(p.chain), array_agg(p.chain_partition), array_agg(p.chain_tenure)
        into ids, generations, acquisitions, holders, expiries, renewals, recorded, heads, tips, befores, withins
        from (select unnest(p_names), unnest(p_generations), unnest(p_acquisitions), unnest(p_holders))
            u (name, generation, acquisition, holder)
        -- LIMIT, here and below: one look-up by key for each, whatever the size of the tables was when it was planned.
        left join lateral (
            select p.id, p.generation, p.acquisition, p.holder, p.expires_at, p.renewals, p.recorded_at, p.head, p.chain,
                p.chain_partition, p.chain_tenure
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
        select array_agg(q.last), array_agg(q.judged_at), array_agg(q.last + q.renewals), array_agg(q.clock_at < q.seen),
                array_agg(fenced_ledger.chain_link(q.chain, q.before, q.position + 1, q.last, q.judged_at, q.within, q.id,
                    q.content))
            into lasts, times, revisions, behind, chains
            from (select generate_series(1, n), unnest(ids), unnest(expiries), unnest(renewals), unnest(recorded),
                    unnest(heads), unnest(tips), unnest(befores), unnest(withins), unnest(generations),
                    unnest(acquisitions), unnest(holders), unnest(p_slots), unnest(p_ids), unnest(p_expected),
                    unnest(p_contents), unnest(p_counts), unnest(p_near))
                m (nth, of, expires_at, renewals, recorded_at, head, chain, before, within, generation, acquisition,
                    holder, slot, id, expected, content, count, near)
            left join lateral (
                select t.position, t.position + m.count as last, t.chain, c.clock_at, m.renewals, m.before, m.within, m.id,
                    m.content, greatest(m.recorded_at, t.recorded_at) as seen,
                    greatest(c.clock_at, m.recorded_at, t.recorded_at) as judged_at
                from (
                    select l.position, l.entry_id, l.generation, l.holder, l.acquisition, l.chain, l.recorded_at
                    from fenced_ledger.log l where l.partition = m.of and l.position >= m.near
                    order by l.position desc limit 1) t
                cross join lateral (select fenced_ledger.clock() as clock_at offset 0) c
                where m.slot = m.nth and octet_length(m.content) = 32
                    and not fenced_ledger.diverged(m.generation, m.holder, m.acquisition, null, m.head, m.chain,
                        t.position, t.entry_id, t.generation, t.holder, t.acquisition, t.chain)
                    and (select 1 from fenced_ledger.log l where l.partition + 0 = m.of and l.entry_id = m.id
                        limit 1) is null
                    -- NULL expects nothing.
                    and coalesce(m.expected = t.position, true)
                    and t.position <= 9223372036854775807 - m.count
                    and greatest(c.clock_at, m.recorded_at, t.recorded_at) < m.expires_at) q on true;
    else
        -- Where the last positions are near, each append goes alone.
        select array_agg(case when not t.diverged and t.position <= 9223372036854775807 - cardinality(p_kinds)
                    then t.position end), array_agg(t.chain), array_agg(greatest(u.recorded_at, t.recorded_at)),
                array_agg((select l.entry_id from fenced_ledger.log l where l.partition + 0 = u.id and l.entry_id is not null
                    order by l.entry_id desc limit 1))
            into heads, tips, recorded, greatest_ids
            from unnest(ids, generations, holders, acquisitions, heads, tips, recorded, p_near)
                u (id, generation, holder, acquisition, head, chain, recorded_at, near)
            left join lateral (
                select l.position, l.chain, l.recorded_at, fenced_ledger.diverged(u.generation, u.holder, u.acquisition,
                    null, u.head, u.chain, l.position, l.entry_id, l.generation, l.holder, l.acquisition, l.chain)
                    as diverged
                from fenced_ledger.log l where l.partition = u.id and l.position >= u.near
                order by l.position desc limit 1) t on true;
        -- An id above all of its partition is a new one: those of version 7 are, as a rule.
        select coalesce(array_agg(u.nth), '{}') into outs
            from (select generate_series(1, n), unnest(p_slots), unnest(p_ids)) u (nth, slot, id)
            where (u.id > greatest_ids[u.slot]) is not true and (
                select 1 from fenced_ledger.log l where l.partition + 0 = ids[u.slot] and l.entry_id = u.id limit 1) = 1;
        -- An expected position counts on those before it.
        if cardinality(array_remove(p_expected, null)) > 0 then
            ahead := heads;
            for nth in 1 .. n loop
                continue when nth = any (outs);
                head := ahead[p_slots[nth]];
                if p_expected[nth] <> head then
                    outs := outs || nth;
                else
                    ahead[p_slots[nth]] := head + p_counts[nth];
                end if;
            end loop;
        end if;
        -- How many events of its slot an append ends: of one slot with one event each, as many as appends.
        if cardinality(p_kinds) > n or cardinality(p_names) > 1 or cardinality(outs) > 0 then
            select array_agg(u.upto) into uptos from (
                select sum(m.count) filter (where m.nth <> all (outs)) over (partition by m.slot order by m.nth) as upto
                from (select generate_series(1, n), unnest(p_slots), unnest(p_counts)) m (nth, slot, count)
                order by m.nth) u;
        end if;
        select array_agg(case when q.granted then q.last end), array_agg(q.judged_at), array_agg(q.last + renewals[m.slot]),
                array_agg(q.clock_at < q.judged_at), array_agg(q.clock_at),
                array_agg(case when q.last = heads[m.slot] + m.count then tips[m.slot] end),
                array_agg(case when q.granted then fenced_ledger.chain_rest(befores[m.slot], q.last - m.count + 1, q.last,
                    q.judged_at, withins[m.slot], m.id, m.content) end)
            into lasts, times, revisions, behind, clocks, starts, links
            from (select generate_series(1, n), unnest(p_slots), unnest(p_ids), unnest(p_contents), unnest(p_counts))
                m (nth, slot, id, content, count)
            cross join lateral (
                select c.clock_at, heads[m.slot] + coalesce(uptos[m.nth], m.nth) as last,
                    greatest(c.clock_at, recorded[m.slot]) as judged_at,
                    m.nth <> all (outs) and octet_length(m.content) = 32
                        and greatest(c.clock_at, recorded[m.slot]) < expiries[m.slot] as granted
                from (select fenced_ledger.clock() as clock_at offset 0) c offset 0) q;
        -- Nothing is decided where the clock was set back between two readings, as times of a partition never go back (T2); nor
        -- where the appends of a slot do not stand side by side.
        if exists (select from (select unnest(clocks), unnest(clocks[1] || clocks), unnest(p_slots),
                unnest(p_slots[1] || p_slots)) u (at, before, slot, slot_before)
            where u.at < u.before or u.slot < u.slot_before)
        then
            lasts := null;
            return;
        end if;
        for nth in 1 .. n loop
            tip := coalesce(sha256(coalesce(starts[nth], tip) || links[nth]), tip);
            chains := chains || tip;
        end loop;
    end if;
    if lasts is null or array_position(lasts, null) > 0 then
        if exists (select from unnest(p_contents) u (content) where octet_length(u.content) is distinct from 32) then
            raise exception 'not appends' using errcode = '22023';
        end if;
    end if;
    -- The events before an entry's last one; and what is left are the last ones.
    if cardinality(p_kinds) > n then
        select array_agg(u.upto) into ends
            from (select sum(u.n) over (order by u.nth) from unnest(p_counts) with ordinality u (n, nth)) u (upto);
        insert into fenced_ledger.log (partition, position, kind, metadata, payload)
            select ids[m.slot], m.last - (m.upto - i), p_kinds[i], p_metadata[i]::json, p_payloads[i]::json
            from unnest(p_slots, lasts, ends, p_counts) m (slot, last, upto, count)
            cross join generate_series(m.upto - m.count + 1, m.upto - 1) i
            where m.last is not null;
        select array_agg(p_kinds[u.upto]), array_agg(p_metadata[u.upto]), array_agg(p_payloads[u.upto])
            into p_kinds, p_metadata, p_payloads from unnest(ends) u (upto);
    end if;
    insert into fenced_ledger.log (partition, position, first, generation, recorded_at, entry_id, acquisition, holder,
            content, chain, kind, metadata, payload)
        select ids[m.slot], m.last, m.last - m.count + 1, generations[m.slot], m.time, m.id, acquisitions[m.slot],
            holders[m.slot], m.content, m.chain, m.kind, m.metadata::json, m.payload::json
        from (select unnest(p_slots), unnest(lasts), unnest(times), unnest(p_ids), unnest(p_contents), unnest(p_counts),
                unnest(chains), unnest(p_kinds), unnest(p_metadata), unnest(p_payloads))
            m (slot, last, "time", id, content, count, chain, kind, metadata, payload)
        where m.last is not null;
end
$$;
