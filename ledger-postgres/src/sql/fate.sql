-- U2: what became of an append, or of a claim by its acquisition. One statement and so one snapshot; no lock.
create function fenced_ledger.fate(p_name text, p_id uuid, p_generation bigint) returns fenced_ledger.answer
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off as
$$
#variable_conflict error
declare
    s record;
begin
    select * into s from fenced_ledger.state(p_name, p_id);
    return row(case
            when s.e_last is not null then 'Recorded'
            when fenced_ledger.visibly_ended(p_generation, s.generation, s.vacancy, s.recorded_at, s.expires_at) then 'Never'
            else 'Undecided' end, s.generation, s.holder, s.acquisition, s.ttl, s.expires_at, s.vacancy, s.vacancy_reason,
        s.recorded_at, s.head, s.chain, s.recorded_at, s.revision, false,
        s.e_id, s.e_first, s.e_generation, s.e_holder, s.e_acquisition, s.e_recorded_at, s.e_content, s.e_chain, s.e_last,
        null, null)::fenced_ledger.answer;
end
$$;
