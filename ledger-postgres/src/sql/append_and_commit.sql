-- A1, S2, U3: `append` for connections of a pool that is not the library's own. Its COMMIT fails inside a transaction that
-- somebody else has left open (2D000), where the function would be answered and then rolled back.
--
-- No SECURITY DEFINER and no SET: either forbids the COMMIT. It only calls the function, which has both.
create procedure fenced_ledger.append_and_commit(
    p_name text, p_generation bigint, p_acquisition uuid, p_holder text, p_id uuid, p_expected bigint,
    p_content bytea, p_kinds text[], p_payloads text[], p_metadata text[], p_remark text, p_own boolean,
    p_idle integer, p_wait integer,
    out verdict text, out generation bigint, out holder text, out acquisition uuid,
    out ttl bigint, out expires_at bigint, out vacancy text, out vacancy_reason text, out recorded_at bigint,
    out head bigint, out chain bytea, out judged_at bigint, out revision bigint, out clock_behind boolean,
    out entry_id uuid, out entry_first bigint, out entry_generation bigint, out entry_holder text,
    out entry_acquisition uuid, out entry_recorded_at bigint, out entry_content bytea, out entry_chain bytea,
    out entry_last bigint, out record text, out successor text
) language plpgsql as
$$
begin
    perform set_config('fenced.own', 'on', true);
    select f.* into
        verdict, generation, holder, acquisition, ttl, expires_at, vacancy, vacancy_reason, recorded_at, head,
        chain, judged_at, revision, clock_behind, entry_id, entry_first, entry_generation, entry_holder,
        entry_acquisition, entry_recorded_at, entry_content, entry_chain, entry_last, record, successor
        from fenced_ledger.append(
            p_name, p_generation, p_acquisition, p_holder, p_id, p_expected, p_content, p_kinds, p_payloads,
            p_metadata, p_remark, p_own, p_idle, p_wait) f;
    commit;
end
$$;
