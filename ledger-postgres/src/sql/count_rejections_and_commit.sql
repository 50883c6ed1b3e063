-- E3, S2: `count_rejections` for connections of a pool that is not the library's own. See append_and_commit.sql.
create procedure fenced_ledger.count_rejections_and_commit(
    p_names text[], p_generations bigint[], p_reasons text[], p_holders text[], p_presented bigint[], p_remarks text[],
    p_acquisitions uuid[], p_appends uuid[], p_current_holders text[], p_current_acquisitions uuid[],
    p_current_expires_at bigint[], p_revisions bigint[], p_at bigint[], p_counts bigint[], p_wait integer,
    out counted bigint
) language plpgsql as
$$
begin
    perform set_config('fenced.own', 'on', true);
    counted := fenced_ledger.count_rejections(p_names, p_generations, p_reasons, p_holders, p_presented, p_remarks,
        p_acquisitions, p_appends, p_current_holders, p_current_acquisitions, p_current_expires_at, p_revisions, p_at,
        p_counts, p_wait);
    commit;
end
$$;
