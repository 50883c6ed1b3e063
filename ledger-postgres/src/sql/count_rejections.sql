-- E2, E3: counts refused appends whose records are stored: what a session kept in memory. Each with the facts of its last
-- refusal. What they say is the caller's word, as in `record_rejection`.
--
-- In the order of the records' own key, those of the overflow last: sessions that count at once wait for each other in
-- one order. Not flushed where it is a transaction of its own.
create function fenced_ledger.count_rejections(
    p_names text[], p_generations bigint[], p_reasons text[], p_holders text[], p_presented bigint[], p_remarks text[],
    p_acquisitions uuid[], p_appends uuid[], p_current_holders text[], p_current_acquisitions uuid[],
    p_current_expires_at bigint[], p_revisions bigint[], p_at bigint[], p_counts bigint[], p_wait integer
) returns bigint
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off as
$$
#variable_conflict error
declare
    x record;
    lazy boolean := fenced_ledger.lone();
    counted bigint := 0;
begin
    if p_wait is not null then perform fenced_ledger.bound_wait(p_wait); end if;
    for x in
        select p.id, u.* from unnest(p_names, p_generations, p_reasons, p_holders, p_presented, p_remarks,
                p_acquisitions, p_appends, p_current_holders, p_current_acquisitions, p_current_expires_at, p_revisions,
                p_at, p_counts)
            u (name, generation, reason, holder, presented, remark, acquisition, append, current_holder,
                current_acquisition, current_expires_at, revision, at, count)
        -- None of a generation that this ledger never had.
        join fenced_ledger.partition p on p.name = u.name and u.generation between 1 and p.generation
        left join fenced_ledger.rejection r on r.scope = p.id and r.generation = u.generation
            and r.key = fenced_ledger.rejection_key('Append', u.reason, u.presented, u.holder, null, nullif(u.remark, ''))
        where u.count > 0
        order by p.id, u.generation, r.slot
    loop
        perform fenced_ledger.refuse(x.id, x.name, x.generation, 'Append', x.reason, x.holder, x.presented,
            nullif(x.remark, ''), x.acquisition, x.append, x.current_holder, x.current_acquisition,
            x.current_expires_at, x.revision, x.at, lazy, x.count);
        counted := counted + least(x.count, 9223372036854775807 - counted);
    end loop;
    return counted;
end
$$;
