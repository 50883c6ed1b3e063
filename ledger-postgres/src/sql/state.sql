-- A1, D1, U2: a partition's row, its newest entry and the entry of one id, in one snapshot. The same with and without
-- the lock, for every verb. Inlined into FROM, so it has no SET and no SECURITY DEFINER.
create function fenced_ledger.state(p_name text, p_id uuid) returns table (
    ledger uuid, id bigint, generation bigint, holder text, acquisition uuid, ttl bigint, expires_at bigint,
    vacancy text, vacancy_reason text, renewals bigint, recorded_at bigint, head bigint, chain bytea, revision bigint,
    diverged boolean, ended_at bigint,
    e_id uuid, e_first bigint, e_last bigint, e_generation bigint, e_holder text, e_acquisition uuid,
    e_recorded_at bigint, e_content bytea, e_chain bytea
) language sql stable as
$$
    select x.ledger, x.id, x.generation, x.holder, x.acquisition, x.ttl, x.expires_at,
        x.vacancy, x.vacancy_reason, x.renewals, greatest(x.recorded_at, t.recorded_at),
        -- Where the log falls short of what the row knows, the row says where it should end (I2).
        greatest(t.position, x.head), case when t.position >= x.head then coalesce(t.chain, x.chain) else x.chain end,
        greatest(t.position, x.head) + x.renewals,
        fenced_ledger.diverged(x.generation, x.holder, x.acquisition, x.vacancy, x.head, x.chain,
            t.position, t.entry_id, t.generation, t.holder, t.acquisition, t.chain),
        x.recorded_at,
        e.entry_id, e.first, e.position, e.generation, e.holder, e.acquisition, e.recorded_at, e.content, e.chain
    from fenced_ledger.partition x
    left join lateral (
        select l.* from fenced_ledger.log l where l.partition = x.id order by l.position desc limit 1) t on true
    left join lateral (
        select l.* from fenced_ledger.log l where l.partition + 0 = x.id and l.entry_id = p_id limit 1) e on true
    where x.name = p_name
$$;
