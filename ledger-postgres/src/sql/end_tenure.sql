-- C3, G4, C5, J1: judges an operator's end of a tenure and stores it, in one call. It leaves no evidence (E1), and always
-- waits for the lock.
create function fenced_ledger.end_tenure(
    p_name text, p_observed bigint, p_observed_acquisition uuid, p_reason text, p_wait integer
) returns fenced_ledger.answer
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
    if num_nulls(p_name, p_observed, p_reason) > 0 or not fenced_ledger.is_note(p_reason) then
        raise exception 'not an end of a tenure' using errcode = '22023';
    end if;
    if p_wait is not null then perform fenced_ledger.bound_wait(p_wait); end if;
    perform 1 from fenced_ledger.partition x where x.name = p_name for no key update;
    clock_at := fenced_ledger.clock();
    select * into s from fenced_ledger.state(p_name, null);
    if current_setting('transaction_isolation') <> 'read committed' then
        perform fenced_ledger.assert_fresh(s.id, s.head, p_name);
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
        digest := fenced_ledger.chain_content(array['$ended'], array[body], array['{}']);
        link := fenced_ledger.chain_next(s.chain, s.ledger, p_name, s.generation, s.head + 1, s.head + 1, judged_at,
            s.acquisition, s.holder, null, digest);
        insert into fenced_ledger.log (partition, position, first, generation, recorded_at, entry_id, acquisition, holder,
                content, chain, kind, metadata, payload)
            values (s.id, s.head + 1, s.head + 1, s.generation, judged_at, null, s.acquisition, s.holder,
                digest, link, '$ended', '{}', body::json);
        update fenced_ledger.partition x
            set vacancy = 'ended', vacancy_reason = p_reason, recorded_at = judged_at, head = s.head + 1, chain = link
            where x.id = s.id;
        return row(verdict, s.generation, s.holder, s.acquisition, s.ttl, s.expires_at, 'ended', p_reason,
        judged_at, s.head + 1, link, judged_at, s.revision + 1, clock_at < s.recorded_at,
        null, null, null, null, null, null, null, null, null,
        null, null)::fenced_ledger.answer;
    end if;
    return row(verdict, s.generation, s.holder, s.acquisition, s.ttl, s.expires_at, s.vacancy, s.vacancy_reason,
        s.recorded_at, s.head, s.chain, judged_at, s.revision, clock_at < s.recorded_at,
        null, null, null, null, null, null, null, null, null,
        null, null)::fenced_ledger.answer;
end
$$;
