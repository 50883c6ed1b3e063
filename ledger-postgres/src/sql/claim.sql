-- C1 to C6, G1 to G4, T2 to T4, J1, E1 to E4: judges a claim and stores it with its succession, in one call.
--
-- `p_observed` is 0 for a partition seen as never claimed. What a committed state has settled for ever (a spent
-- acquisition, an observation below the current generation, an own tenure that has visibly ended) is answered without
-- the lock (E4). Everything else is judged under it, `Held` too: a renewal or an expiry may be in the wait (T4).
create function fenced_ledger.claim(
    p_name text, p_acquisition uuid, p_holder text, p_ttl bigint, p_observed bigint, p_observed_acquisition uuid,
    p_own boolean, p_wait integer
) returns fenced_ledger.answer
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
    before bytea;
    within bytea;
    link bytea;
    wrote boolean;
    note text;
begin
    -- The library checks its input before it asks; this is for whoever calls by hand (S5).
    if num_nulls(p_name, p_acquisition, p_holder, p_ttl, p_observed) > 0 or not fenced_ledger.is_name(p_name)
        or not fenced_ledger.is_name(p_holder) or not fenced_ledger.is_id(p_acquisition) or p_observed < 0
        or p_ttl not between 1 and 86400000000
    then
        raise exception 'not a claim' using errcode = '22023';
    end if;
    if p_wait is not null then perform fenced_ledger.bound_wait(p_wait); end if;
    for try in 1 .. 6 loop
        clock_at := fenced_ledger.clock();
        select * into s from fenced_ledger.state(p_name, p_acquisition);
        if s.id is null then
            verdict := 'ObservationOutdated';
            judged_at := clock_at;
            exit when p_observed <> 0;
            -- C2: the first claim locks by its insert, and is completed below. Nothing of time may be in it: it may wait
            -- for a rival that rolls back, and the clock is read after that wait.
            insert into fenced_ledger.partition
                (name, generation, holder, acquisition, ttl, expires_at, renewals, recorded_at, head, chain, ledger,
                chain_partition, chain_tenure)
                select p_name, 0, p_holder, p_acquisition, p_ttl, -9223372036854775808, 0, -9223372036854775808, 0,
                    fenced_ledger.chain_start(g.id, p_name), g.id, '', ''
                from fenced_ledger.ledger g where g.one
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
        perform 1 from fenced_ledger.partition x where x.name = p_name for no key update;
        locked := found;
    end loop;
    if (locked or s.id is null) and current_setting('transaction_isolation') <> 'read committed' then
        perform fenced_ledger.assert_fresh(s.id, s.head, p_name);
    end if;
    if verdict = 'Granted' then
        until := fenced_ledger.later(judged_at, p_ttl);
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
        digest := fenced_ledger.chain_content(array['$claimed'], array[succession], array['{}']);
        before := fenced_ledger.chain_partition(s.ledger, p_name, s.generation + 1);
        within := fenced_ledger.chain_tenure(p_acquisition, p_holder);
        link := fenced_ledger.chain_link(s.chain, before, s.head + 1, s.head + 1, judged_at, within, p_acquisition, digest);
        insert into fenced_ledger.log (partition, position, first, generation, recorded_at, entry_id, acquisition, holder,
                content, chain, kind, metadata, payload)
            values (s.id, s.head + 1, s.head + 1, s.generation + 1, judged_at, p_acquisition, p_acquisition, p_holder,
                digest, link, '$claimed', '{}', succession::json);
        update fenced_ledger.partition x
            set generation = s.generation + 1, holder = p_holder, acquisition = p_acquisition, ttl = p_ttl,
                expires_at = until, vacancy = null, vacancy_reason = null, recorded_at = judged_at, head = s.head + 1,
                chain = link, chain_partition = before, chain_tenure = within
            where x.id = s.id;
        return row(verdict, s.generation + 1, p_holder, p_acquisition, p_ttl, until, null, null,
        judged_at, s.head + 1, link, judged_at, s.revision + 1, clock_at < s.recorded_at,
        null, null, null, null, null, null, null, null, null,
        null, null)::fenced_ledger.answer;
    end if;
    if verdict not in ('Replay', 'ObservationOutdated', 'Held') then
        wrote := verdict = 'Expired' and locked and s.ended_at < s.expires_at;
        if wrote then
            -- T2: the answer rests on the expiry, so its time is stored, once.
            update fenced_ledger.partition x set recorded_at = judged_at where x.id = s.id;
        end if;
        note := fenced_ledger.refuse(s.id, p_name, s.generation, 'Claim', verdict, p_holder, p_observed, null,
            p_acquisition, null, s.holder, s.acquisition, s.expires_at, s.revision, judged_at,
            p_own and not wrote and fenced_ledger.lone());
    end if;
    return row(verdict, s.generation, s.holder, s.acquisition, s.ttl, s.expires_at, s.vacancy, s.vacancy_reason,
        s.recorded_at, s.head, s.chain, judged_at, s.revision, clock_at < s.recorded_at,
        null, null, null, null, null, null, null, null, null,
        note, null)::fenced_ledger.answer;
end
$$;
