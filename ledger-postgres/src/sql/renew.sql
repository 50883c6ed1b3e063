-- R1, R2, T2 to T4, G4, J1, E1 to E4: judges a renewal and stores it, in one call. The steps are those of `append`.
create function fenced_ledger.renew(
    p_name text, p_generation bigint, p_acquisition uuid, p_holder text, p_ttl bigint, p_own boolean, p_wait integer
) returns fenced_ledger.answer
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
    if p_wait is not null then perform fenced_ledger.bound_wait(p_wait); end if;
    for try in 1 .. 4 loop
        perform 1 from fenced_ledger.partition x where x.name = p_name
            and not fenced_ledger.visibly_ended(p_generation, x.generation, x.vacancy, x.recorded_at, x.expires_at)
            for no key update;
        locked := found;
        clock_at := fenced_ledger.clock();
        select * into s from fenced_ledger.state(p_name, null);
        exit when locked or s.id is null
            or fenced_ledger.visibly_ended(p_generation, s.generation, s.vacancy, s.ended_at, s.expires_at);
        if try = 4 then raise exception 'the partition kept changing' using errcode = '40001'; end if;
    end loop;
    if (locked or s.id is null) and current_setting('transaction_isolation') <> 'read committed' then
        perform fenced_ledger.assert_fresh(s.id, s.head, p_name);
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
        until := greatest(s.expires_at, fenced_ledger.later(judged_at, coalesce(p_ttl, s.ttl)));
        update fenced_ledger.partition x
            set expires_at = until, renewals = x.renewals + 1, recorded_at = judged_at, head = s.head, chain = s.chain
            where x.id = s.id;
        return row(verdict, s.generation, s.holder, s.acquisition, s.ttl, until, s.vacancy, s.vacancy_reason,
        judged_at, s.head, s.chain, judged_at, s.revision + 1, clock_at < s.recorded_at,
        null, null, null, null, null, null, null, null, null,
        null, null)::fenced_ledger.answer;
    end if;
    wrote := verdict = 'Expired' and locked;
    if wrote then
        -- T2: the answer rests on the expiry, so its time is stored, once.
        update fenced_ledger.partition x set recorded_at = judged_at where x.id = s.id;
    end if;
    note := fenced_ledger.refuse(coalesce(s.id, 0), p_name, coalesce(s.generation, 0), 'Renew', verdict, p_holder,
        p_generation, null, p_acquisition, null, s.holder, s.acquisition, s.expires_at, coalesce(s.revision, 0),
        judged_at, p_own and not wrote and fenced_ledger.lone());
    return row(verdict, s.generation, s.holder, s.acquisition, s.ttl, s.expires_at, s.vacancy, s.vacancy_reason,
        s.recorded_at, s.head, s.chain, judged_at, s.revision, clock_at < s.recorded_at,
        null, null, null, null, null, null, null, null, null,
        note, null)::fenced_ledger.answer;
end
$$;
