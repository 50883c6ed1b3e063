-- E2, S2: `record_rejection` with a COMMIT of its own: see append_and_commit.sql.
create procedure fenced_ledger.record_rejection_and_commit(
    p_name text, p_generation bigint, p_operation text, p_reason text, p_holder text, p_presented bigint,
    p_remark text, p_acquisition uuid, p_append uuid, p_current_holder text, p_current_acquisition uuid,
    p_current_expires_at bigint, p_revision bigint, p_at bigint, p_wait integer, out record text
) language plpgsql as
$$
begin
    record := fenced_ledger.record_rejection(p_name, p_generation, p_operation, p_reason, p_holder, p_presented,
        p_remark, p_acquisition, p_append, p_current_holder, p_current_acquisition, p_current_expires_at, p_revision,
        p_at, p_wait);
    commit;
end
$$;
