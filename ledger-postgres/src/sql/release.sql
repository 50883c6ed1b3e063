-- R3, G4, T2 to T4, J1, E1 to E4: judges a release and stores it, in one call. The steps are those of `append`. A tenure
-- that has ended is a success without effect; of an older one the log says who held it and how it ended.
create function fenced_ledger.release(
    p_name text, p_generation bigint, p_acquisition uuid, p_holder text, p_own boolean, p_wait integer
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
    if p_generation < s.generation then
        select l.holder, l.acquisition into was_holder, was_acquisition from fenced_ledger.log l
            where l.partition + 0 = s.id and l.generation = p_generation and l.kind = '$claimed';
        select l.payload::text into followed_by from fenced_ledger.log l
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
        digest := fenced_ledger.chain_content(array['$released'], array['{}'], array['{}']);
        link := fenced_ledger.chain_next(s.chain, s.ledger, p_name, s.generation, s.head + 1, s.head + 1, judged_at,
            s.acquisition, s.holder, null, digest);
        insert into fenced_ledger.log (partition, position, first, generation, recorded_at, entry_id, acquisition, holder,
                content, chain, kind, metadata, payload)
            values (s.id, s.head + 1, s.head + 1, s.generation, judged_at, null, s.acquisition, s.holder,
                digest, link, '$released', '{}', '{}');
        update fenced_ledger.partition x
            set vacancy = 'released', recorded_at = judged_at, head = s.head + 1, chain = link where x.id = s.id;
        return row(verdict, s.generation, s.holder, s.acquisition, s.ttl, s.expires_at, 'released', null,
        judged_at, s.head + 1, link, judged_at, s.revision + 1, clock_at < s.recorded_at,
        null, null, null, null, null, null, null, null, null,
        null, null)::fenced_ledger.answer;
    end if;
    if verdict = 'AlreadyEnded' then
        if p_generation = s.generation and s.vacancy is null and locked then
            -- T2: the answer rests on the expiry, so its time is stored, once.
            update fenced_ledger.partition x set recorded_at = judged_at where x.id = s.id;
        end if;
        return row(verdict, s.generation, s.holder, s.acquisition, s.ttl, s.expires_at, s.vacancy, s.vacancy_reason,
        s.recorded_at, s.head, s.chain, judged_at, s.revision, clock_at < s.recorded_at,
        null, null, null, null, null, null, null, null, null,
        null, followed_by)::fenced_ledger.answer;
    end if;
    note := fenced_ledger.refuse(coalesce(s.id, 0), p_name, coalesce(s.generation, 0), 'Release', verdict, p_holder,
        p_generation, null, p_acquisition, null, s.holder, s.acquisition, s.expires_at, coalesce(s.revision, 0),
        judged_at, p_own and fenced_ledger.lone());
    return row(verdict, s.generation, s.holder, s.acquisition, s.ttl, s.expires_at, s.vacancy, s.vacancy_reason,
        s.recorded_at, s.head, s.chain, judged_at, s.revision, clock_at < s.recorded_at,
        null, null, null, null, null, null, null, null, null,
        note, null)::fenced_ledger.answer;
end
$$;
