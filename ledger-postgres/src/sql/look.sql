-- E4, J1 to J3: what appends are judged by whose tenure has visibly ended: for each partition and id the lease, the newest
-- entry and the entry of that id, in one snapshot. No lock and no write; the library judges, as ledger-core does, and
-- asks `append` wherever the tenure has not ended by what is seen here.
--
-- No row for a partition that was never claimed. LIMIT: one look-up by key for each, whatever the size of the tables
-- was when it was planned.
create function fenced_ledger.look(p_names text[], p_ids uuid[]) returns table (
    nth bigint,
    generation bigint, holder text, acquisition uuid, ttl bigint, expires_at bigint, vacancy text, vacancy_reason text,
    renewals bigint, recorded_at bigint, head bigint, chain bytea,
    tip_id uuid, tip_first bigint, tip_generation bigint, tip_holder text, tip_acquisition uuid,
    tip_recorded_at bigint, tip_content bytea, tip_chain bytea, tip_last bigint,
    entry_id uuid, entry_first bigint, entry_generation bigint, entry_holder text, entry_acquisition uuid,
    entry_recorded_at bigint, entry_content bytea, entry_chain bytea, entry_last bigint,
    clock_at bigint
)
language plpgsql stable security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off
    set plan_cache_mode = force_generic_plan as
$$
#variable_conflict use_column
begin
    return query
        select u.nth, x.generation, x.holder, x.acquisition, x.ttl, x.expires_at, x.vacancy, x.vacancy_reason,
            x.renewals, x.recorded_at, x.head, x.chain,
            t.entry_id, t.first, t.generation, t.holder, t.acquisition, t.recorded_at, t.content, t.chain, t.position,
            e.entry_id, e.first, e.generation, e.holder, e.acquisition, e.recorded_at, e.content, e.chain, e.position,
            fenced_ledger.clock()
        from unnest(p_names, p_ids) with ordinality u (name, id, nth)
        cross join lateral (select * from fenced_ledger.partition p where p.name = u.name limit 1) x
        left join lateral (
            select * from fenced_ledger.log l where l.partition = x.id order by l.position desc limit 1) t on true
        left join lateral (
            select * from fenced_ledger.log l where l.partition + 0 = x.id and l.entry_id = u.id limit 1) e on true;
end
$$;
