-- E2, E3: counts refused appends whose records a session knows to be stored, so many of a key, each key with the facts of
-- its last refusal: all of them or, with an error, none. What they say is the caller's word, as in `record_rejection`.
--
-- In the order of the records' slots: sessions that count at once wait for each other in one order. Not flushed where it
-- is a transaction of its own and all are repeats: a record that is gone, since the store went back in time, is the first
-- of its key again.
--
-- LIMIT: one look-up by key for each, whatever the size of the tables was when it was planned.
create function fenced_ledger.count_rejections(
    p_names text[], p_generations bigint[], p_reasons text[], p_holders text[], p_presented bigint[], p_remarks text[],
    p_acquisitions uuid[], p_appends uuid[], p_current_holders text[], p_current_acquisitions uuid[],
    p_current_expires_at bigint[], p_revisions bigint[], p_at bigint[], p_counts bigint[], p_wait integer
) returns bigint
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off
    set plan_cache_mode = force_generic_plan as
$$
#variable_conflict error
declare
    x record;
    lazy boolean := fenced_ledger.lone();
    keys integer := 0;
    counted bigint := 0;
    note text;
begin
    if p_wait is not null then perform fenced_ledger.bound_wait(p_wait); end if;
    for x in
        select p.id, coalesce(r.slot, o.slot) as slot, u.*
        from unnest(p_names, p_generations, p_reasons, p_holders, p_presented, p_remarks, p_acquisitions, p_appends,
                p_current_holders, p_current_acquisitions, p_current_expires_at, p_revisions, p_at, p_counts)
            u (name, generation, reason, holder, presented, remark, acquisition, append, current_holder,
                current_acquisition, current_expires_at, revision, at, count)
        -- None of a generation that this ledger never had.
        cross join lateral (
            select p.id from fenced_ledger.partition p where p.name = u.name and u.generation between 1 and p.generation limit 1) p
        left join lateral (
            select r.slot from fenced_ledger.rejection r where r.scope = p.id and r.generation = u.generation
                and r.key = fenced_ledger.rejection_key(
                    'Append', u.reason, u.presented, u.holder, null, nullif(u.remark, ''))
            limit 1) r on true
        left join lateral (
            select o.slot from fenced_ledger.rejection o where o.scope = p.id and o.generation = u.generation
                and o.slot = 257
            limit 1) o on r.slot is null
        where u.count > 0
        order by p.id, u.generation, coalesce(r.slot, o.slot)
    loop
        note := fenced_ledger.refuse(x.id, x.name, x.generation, 'Append', x.reason, x.holder, x.presented,
            nullif(x.remark, ''), x.acquisition, x.append, x.current_holder, x.current_acquisition,
            x.current_expires_at, x.revision, x.at, false, x.count);
        -- Of the overflow record the first is Counted too.
        lazy := lazy and note = 'Counted' and x.slot is not null;
        keys := keys + 1;
        counted := counted + least(x.count, 9223372036854775807 - counted);
    end loop;
    if keys <> cardinality(p_names) then
        raise exception 'not refusals of this ledger' using errcode = '22023';
    end if;
    if lazy then perform set_config('synchronous_commit', 'off', true); end if;
    return counted;
end
$$;
