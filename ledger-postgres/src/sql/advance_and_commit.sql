-- I4, S2, U3: `advance` with a COMMIT of its own: see append_and_commit.sql.
--
-- No SECURITY DEFINER and no SET: either forbids the COMMIT. It only calls the function, which has both.
create procedure fenced_ledger.advance_and_commit(
    p_name text, p_acquisition uuid, p_operator text, p_above bigint, p_reason text, p_wait integer,
    out verdict text, out generation bigint, out holder text, out acquisition uuid, out ttl bigint,
    out expires_at bigint, out vacancy text, out vacancy_reason text, out recorded_at bigint, out head bigint,
    out chain bytea, out judged_at bigint, out revision bigint, out clock_behind boolean, out entry_id uuid,
    out entry_first bigint, out entry_generation bigint, out entry_holder text, out entry_acquisition uuid,
    out entry_recorded_at bigint, out entry_content bytea, out entry_chain bytea, out entry_last bigint,
    out record text, out successor text
) language plpgsql as
$$
begin
    select f.* into
        verdict, generation, holder, acquisition, ttl, expires_at, vacancy, vacancy_reason, recorded_at, head,
        chain, judged_at, revision, clock_behind, entry_id, entry_first, entry_generation, entry_holder,
        entry_acquisition, entry_recorded_at, entry_content, entry_chain, entry_last, record, successor
        from fenced_ledger.advance(
            p_name, p_acquisition, p_operator, p_above, p_reason, p_wait) f;
    commit;
end
$$;
