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
-- three statements before a write. An expression of PL/pgSQL costs its preparation, 5,000 instructions and more each
-- transaction: so those that a granted append meets are few. An INSERT that reads the newest entry itself was tried: its
-- plan costs more than the statement and the expressions that it spares.
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
create function fenced_ledger.append(
    p_name text, p_generation bigint, p_acquisition uuid, p_holder text, p_id uuid, p_expected bigint, p_content bytea,
    p_kinds text[], p_payloads text[], p_metadata text[], p_remark text, p_own boolean, p_idle integer, p_wait integer
) returns fenced_ledger.answer
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
    if (n between 1 and 10000 and fenced_ledger.is_id(p_id) and octet_length(p_content) = 32
        and cardinality(p_metadata) in (1, n) and cardinality(p_kinds) in (1, n) and fenced_ledger.is_kind(p_kinds[1])
        and (cardinality(p_kinds) = 1 or fenced_ledger.are_kinds(p_kinds))) is not true
    then
        raise exception 'not an append' using errcode = '22023';
    end if;
    if p_wait is not null or p_idle is not null then
        if p_wait is not null then perform fenced_ledger.bound_wait(p_wait); end if;
        if p_idle is not null then perform fenced_ledger.bound_idle(p_idle); end if;
    end if;
    for try in 1 .. 4 loop
        select p.id, p.expires_at, p.recorded_at, p.renewals, p.head, p.chain, p.chain_partition, p.chain_tenure into x
            from fenced_ledger.partition p
            where p.name = p_name and p.generation = p_generation and p.acquisition = p_acquisition
                and p.holder = p_holder and p.vacancy is null and p.recorded_at < p.expires_at
            for no key update;
        if found then
            select l.position, l.chain, fenced_ledger.clock() as clock_at, greatest(x.recorded_at, l.recorded_at) as seen,
                    fenced_ledger.diverged(p_generation, p_holder, p_acquisition, null, x.head, x.chain, l.position,
                        l.entry_id, l.generation, l.holder, l.acquisition, l.chain) as diverged
                into t
                from fenced_ledger.log l where l.partition = x.id order by l.position desc limit 1;
            if current_setting('transaction_isolation') <> 'read committed' then
                perform fenced_ledger.assert_fresh(x.id, greatest(t.position, x.head), p_name);
            end if;
            judged_at := greatest(t.clock_at, t.seen);
            if judged_at < x.expires_at and not t.diverged and coalesce(p_expected = t.position, true)
                and t.position <= 9223372036854775807 - n
            then
                perform 1 from fenced_ledger.log l where l.partition + 0 = x.id and l.entry_id = p_id;
                if not found then
                    if n > 1 and cardinality(p_kinds) = 1 and cardinality(p_metadata) = 1 then
                        metadata := p_metadata[1]::json;
                        insert into fenced_ledger.log (partition, position, kind, metadata, payload)
                            select x.id, t.position + u.i, p_kinds[1], metadata, u.p::json
                            from unnest(p_payloads) with ordinality u (p, i) where u.i < n;
                    elsif n > 1 then
                        if cardinality(p_kinds) = 1 then p_kinds := array_fill(p_kinds[1], array[n]); end if;
                        if cardinality(p_metadata) = 1 then p_metadata := array_fill(p_metadata[1], array[n]); end if;
                        insert into fenced_ledger.log (partition, position, kind, metadata, payload)
                            select x.id, t.position + u.i, u.k, u.m::json, u.p::json
                            from unnest(p_kinds, p_payloads, p_metadata) with ordinality u (k, p, m, i) where u.i < n;
                    end if;
                    link := fenced_ledger.chain_link(t.chain, x.chain_partition, t.position + 1, t.position + n, judged_at,
                        x.chain_tenure, p_id, p_content);
                    insert into fenced_ledger.log (partition, position, first, generation, recorded_at, entry_id,
                            acquisition, holder, content, chain, kind, metadata, payload)
                        values (x.id, t.position + n, t.position + 1, p_generation, judged_at, p_id,
                            p_acquisition, p_holder, p_content, link, p_kinds[cardinality(p_kinds)],
                            p_metadata[cardinality(p_metadata)]::json, p_payloads[n]::json);
                    return row('Granted', null, null, null, null, null, null, null, null, null, null,
                        judged_at, t.position + n + x.renewals, t.clock_at < judged_at,
                        p_id, null, null, null, null, null, null, link, t.position + n, null, null)::fenced_ledger.answer;
                end if;
            end if;
        end if;
        -- As above; what is NULL never holds, so that it is asked here, where it costs no granted append.
        if num_nulls(p_name, p_generation, p_acquisition, p_holder) > 0 then
            raise exception 'not an append' using errcode = '22023';
        end if;
        perform 1 from fenced_ledger.partition p where p.name = p_name
            and not fenced_ledger.visibly_ended(p_generation, p.generation, p.vacancy, p.recorded_at, p.expires_at)
            for no key update;
        locked := found;
        clock_at := fenced_ledger.clock();
        select * into s from fenced_ledger.state(p_name, p_id);
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
            when s.e_last is not null then case when s.e_content = p_content then 'Replay' else 'AppendIdReused' end
            -- NULL expects nothing; and where no position is left, no expectation can be met.
            when p_expected <> s.head or s.head > 9223372036854775807 - n then 'PositionConflict' end;
        exit when verdict is not null and (locked or s.id is null
            or fenced_ledger.visibly_ended(p_generation, s.generation, s.vacancy, s.ended_at, s.expires_at));
        if try = 4 then raise exception 'the partition kept changing' using errcode = '40001'; end if;
    end loop;
    if p_own and verdict not in ('Replay', 'PositionConflict') then
        wrote := verdict = 'Expired' and locked;
        if wrote then
            -- T2: the answer rests on the expiry, so its time is stored, once.
            update fenced_ledger.partition p set recorded_at = judged_at where p.id = s.id;
        end if;
        note := fenced_ledger.refuse(coalesce(s.id, 0), p_name, coalesce(s.generation, 0), 'Append', verdict, p_holder,
            p_generation, p_remark, p_acquisition, p_id, s.holder, s.acquisition, s.expires_at, coalesce(s.revision, 0),
            judged_at, not wrote and fenced_ledger.lone());
    elsif verdict = 'Expired' and locked then
        update fenced_ledger.partition p set recorded_at = judged_at where p.id = s.id;
    end if;
    return row(verdict, s.generation, s.holder, s.acquisition, s.ttl, s.expires_at, s.vacancy, s.vacancy_reason,
        s.recorded_at, s.head, s.chain, judged_at, s.revision, clock_at < s.recorded_at,
        s.e_id, s.e_first, s.e_generation, s.e_holder, s.e_acquisition, s.e_recorded_at, s.e_content, s.e_chain, s.e_last,
        note, null)::fenced_ledger.answer;
end
$$;
