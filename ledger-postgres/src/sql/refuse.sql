-- E1 to E3: keeps the record of a refusal, or of so many alike, and says Stored for the first of its key or else Counted.
--
-- Locks are taken in one order: partition (where the refusal was judged under it), budget, record. The budget's row is
-- locked before it is advanced, and the key looked for again in a fresh snapshot, so that two sessions that bring one
-- new key burn no slot. A repeat need not be flushed, where the call is a transaction of its own (`p_lazy`).
create function fenced_ledger.refuse(
    p_scope bigint, p_name text, p_generation bigint, p_operation text, p_reason text, p_holder text, p_presented bigint,
    p_remark text, p_acquisition uuid, p_append uuid, p_current_holder text, p_current_acquisition uuid,
    p_current_expires_at bigint, p_revision bigint, p_at bigint, p_lazy boolean, p_count bigint default 1
) returns text language plpgsql as
$$
#variable_conflict error
declare
    k bytea := fenced_ledger.rejection_key(p_operation, p_reason, p_presented, p_holder,
        case when p_scope = 0 then p_name end, p_remark);
    taken integer;
    again boolean := false;
begin
    loop
        update fenced_ledger.rejection r
            set count = r.count + p_count, last_at = greatest(r.last_at, p_at), acquisition = p_acquisition,
                append_id = p_append, current_holder = p_current_holder, current_acquisition = p_current_acquisition,
                current_expires_at = p_current_expires_at, revision = p_revision
            where r.scope = p_scope and r.generation = p_generation and r.key = k;
        if found then
            if p_lazy then perform set_config('synchronous_commit', 'off', true); end if;
            return 'Counted';
        end if;
        if not again then
            select b.used into taken from fenced_ledger.evidence_budget b
                where b.scope = p_scope and b.generation = p_generation;
        end if;
        if taken >= 257 then
            update fenced_ledger.rejection r set count = r.count + p_count, last_at = greatest(r.last_at, p_at)
                where r.scope = p_scope and r.generation = p_generation and r.slot = 257;
            if p_lazy then perform set_config('synchronous_commit', 'off', true); end if;
            return 'Counted';
        end if;
        exit when again;
        insert into fenced_ledger.evidence_budget as b (scope, generation, used) values (p_scope, p_generation, 0)
            on conflict on constraint evidence_budget_key do update set used = b.used returning b.used into taken;
        again := true;
    end loop;
    update fenced_ledger.evidence_budget b set used = taken + 1
        where b.scope = p_scope and b.generation = p_generation;
    if taken < 256 then
        insert into fenced_ledger.rejection (scope, generation, presented, count, first_at, last_at, revision,
                current_expires_at, slot, acquisition, append_id, current_acquisition, key, name, operation, reason,
                holder, current_holder, remark)
            values (p_scope, p_generation, p_presented, p_count, p_at, p_at, p_revision,
                p_current_expires_at, taken + 1, p_acquisition, p_append, p_current_acquisition, k,
                case when p_scope = 0 then p_name end, p_operation, p_reason, p_holder, p_current_holder, p_remark);
        return 'Stored';
    end if;
    insert into fenced_ledger.rejection (scope, generation, count, first_at, last_at, slot, key)
        values (p_scope, p_generation, p_count, p_at, p_at, 257, '');
    return 'Counted';
end
$$;
