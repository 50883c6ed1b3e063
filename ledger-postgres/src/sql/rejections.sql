-- E1 to E3: rejection records after a slot, in the order of their slots. For a partition those from before its first claim
-- stand first; for NULL all of the budget of never-claimed partitions.
create function fenced_ledger.rejections(p_name text, p_generation bigint, p_slot integer, p_limit integer)
returns table (
    generation bigint, slot integer, name text, operation text, reason text, holder text, presented bigint,
    remark text, acquisition uuid, append_id uuid, current_holder text, current_acquisition uuid,
    current_expires_at bigint, revision bigint, count bigint, first_at bigint, last_at bigint
)
language plpgsql stable set search_path = pg_catalog, pg_temp set enable_seqscan = off as
$$
#variable_conflict use_column
declare
    found_scope bigint := (select x.id from fenced_ledger.partition x where x.name = p_name);
begin
    return query
        select r.generation, r.slot, coalesce(r.name, case when r.scope <> 0 then p_name end), r.operation, r.reason,
            r.holder, r.presented, r.remark, r.acquisition, r.append_id, r.current_holder, r.current_acquisition,
            r.current_expires_at, r.revision, r.count, r.first_at, r.last_at
        from fenced_ledger.rejection r
        where ((r.scope = 0 and (p_name is null or r.name = p_name)) or r.scope = found_scope)
            and (r.generation, r.slot) > (p_generation, p_slot)
        order by r.generation, r.slot limit p_limit;
end
$$;
