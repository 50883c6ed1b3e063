-- I4, G1, G4, C5, J1: judges an operator's advance and stores it, in one call. It leaves no evidence (E1), and always
-- waits for the lock. The log goes on from its newest entry, whatever the row says: so that is read here, and `state`
-- only tells what is answered. The same steps as `decide::advance` of ledger-core.
create function fenced_ledger.advance(
    p_name text, p_acquisition uuid, p_operator text, p_above bigint, p_reason text, p_wait integer
) returns fenced_ledger.answer
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
    before bytea;
    within bytea;
    link bytea;
begin
    -- The library checks its input before it asks; this is for whoever calls by hand (S5).
    if num_nulls(p_name, p_acquisition, p_operator, p_reason) > 0 or not fenced_ledger.is_name(p_name)
        or not fenced_ledger.is_name(p_operator) or not fenced_ledger.is_id(p_acquisition)
        or not fenced_ledger.is_note(p_reason) or p_above < 1
    then
        raise exception 'not an advance' using errcode = '22023';
    end if;
    if p_wait is not null then perform fenced_ledger.bound_wait(p_wait); end if;
    perform 1 from fenced_ledger.partition x where x.name = p_name for no key update;
    if not found and p_above is distinct from 9223372036854775807 then
        -- As a first claim: it locks by its insert, and is completed below.
        insert into fenced_ledger.partition
            (name, generation, holder, acquisition, ttl, expires_at, renewals, recorded_at, head, chain, ledger,
                chain_partition, chain_tenure)
            select p_name, 0, p_operator, p_acquisition, 3000000, -9223372036854775808, 0, -9223372036854775808, 0,
                fenced_ledger.chain_start(g.id, p_name), g.id, '', ''
            from fenced_ledger.ledger g where g.one
            on conflict do nothing;
        if not found then
            perform 1 from fenced_ledger.partition x where x.name = p_name for no key update;
        end if;
    end if;
    clock_at := fenced_ledger.clock();
    select * into s from fenced_ledger.state(p_name, p_acquisition);
    select r.head, r.chain into kept from fenced_ledger.partition r where r.id = s.id;
    select l.position into last from fenced_ledger.log l where l.partition = s.id order by l.position desc limit 1;
    last := coalesce(last, 0);
    select l.position, l.generation, l.recorded_at, l.chain into t from fenced_ledger.log l
        where l.partition = s.id and l.first is not null order by l.position desc limit 1;
    select l.* into a from fenced_ledger.log l
        where l.partition + 0 = s.id and l.kind = '$advanced' and l.acquisition = p_acquisition limit 1;
    if current_setting('transaction_isolation') <> 'read committed' then
        perform fenced_ledger.assert_fresh(s.id, last, p_name);
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
        digest := fenced_ledger.chain_content(array['$advanced'], array[body], array['{}']);
        before := fenced_ledger.chain_partition(s.ledger, p_name, next);
        within := fenced_ledger.chain_tenure(p_acquisition, p_operator);
        link := fenced_ledger.chain_link(coalesce(t.chain, fenced_ledger.chain_start(s.ledger, p_name)), before, last + 1,
            last + 1, judged_at, within, null, digest);
        insert into fenced_ledger.log (partition, position, first, generation, recorded_at, entry_id, acquisition, holder,
                content, chain, kind, metadata, payload)
            values (s.id, last + 1, last + 1, next, judged_at, null, p_acquisition, p_operator,
                digest, link, '$advanced', '{}', body::json);
        update fenced_ledger.partition r
            set generation = next, holder = p_operator, acquisition = p_acquisition, expires_at = judged_at,
                vacancy = 'advanced', vacancy_reason = p_reason, renewals = counted, recorded_at = judged_at,
                head = last + 1, chain = link, chain_partition = before, chain_tenure = within
            where r.id = s.id;
        return row(verdict, next, p_operator, p_acquisition, s.ttl, judged_at, 'advanced', p_reason,
        judged_at, last + 1, link, judged_at, last + 1 + counted, clock_at < judged_at,
        null, null, null, null, null, null, null, null, null,
        null, null)::fenced_ledger.answer;
    end if;
    -- Only a replay tells of an entry; what a refusal would tell of is an append's (J3).
    if verdict <> 'Replay' then
        select l.* into a from fenced_ledger.log l where false;
    end if;
    return row(verdict, s.generation, s.holder, s.acquisition, s.ttl, s.expires_at, s.vacancy, s.vacancy_reason,
        s.recorded_at, s.head, s.chain, judged_at, s.revision, clock_at < judged_at,
        a.entry_id, a.first, a.generation, a.holder, a.acquisition, a.recorded_at, a.content, a.chain, a.position,
        null, null)::fenced_ledger.answer;
end
$$;
