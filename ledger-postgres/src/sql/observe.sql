-- D1, T2, J2: the state of a partition, committed at one moment; no lock.
create function fenced_ledger.observe(p_name text) returns fenced_ledger.answer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off as
$$
#variable_conflict error
declare
    s record;
    clock_at bigint;
begin
    select * into s from fenced_ledger.state(p_name, null);
    clock_at := fenced_ledger.clock();
    return row('Observed', s.generation, s.holder, s.acquisition, s.ttl, s.expires_at, s.vacancy, s.vacancy_reason,
        s.recorded_at, s.head, s.chain, greatest(clock_at, s.recorded_at), s.revision, clock_at < s.recorded_at,
        null, null, null, null, null, null, null, null, null,
        null, null)::fenced_ledger.answer;
end
$$;
