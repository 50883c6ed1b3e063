-- E1 to E3: keeps the record of a refusal, or of so many alike, and says Stored for the first of its key or else Counted.
--
-- Locks are taken in one order: partition (where the refusal was judged under it), budget, record. The budget's row is
-- locked before it is advanced, and the key looked for again in a fresh snapshot, so that two sessions that bring one
-- new key burn no slot. A repeat need not be flushed, where the call is a transaction of its own (`p_lazy`). A count stays at
-- the greatest number, so that none that somebody has made up makes an error of a refusal.
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
    -- A record that the library cannot read spoils its page, and with it a handover (H3). The library checks its input before it
    -- asks; this is for whoever calls by hand (S5). Operations and reasons are those of E1.
    if num_nulls(p_name, p_operation, p_reason, p_holder, p_presented, p_acquisition, p_revision, p_at) > 0
        or (p_scope = 0) <> (p_generation = 0) or p_generation < 0 or p_presented < 0 or p_revision < 0 or p_count < 1
        or p_operation not in ('Append', 'Claim', 'Renew', 'Release')
        or p_reason not in ('NeverClaimed', 'Diverged', 'StaleGeneration', 'UnknownGeneration', 'WrongAcquisition',
            'WrongHolder', 'Released', 'Expired', 'AppendIdReused', 'AcquisitionSpent', 'GenerationExhausted')
        or not fenced_ledger.is_name(p_name) or not fenced_ledger.is_name(p_holder)
        or not fenced_ledger.is_name(p_current_holder) or not fenced_ledger.is_id(p_acquisition)
        or not fenced_ledger.is_id(p_append) or not fenced_ledger.is_id(p_current_acquisition)
        or not fenced_ledger.is_remark(p_remark)
    then
        raise exception 'not a refusal that is kept' using errcode = '22023';
    end if;
    loop
        update fenced_ledger.rejection r
            set count = r.count + least(p_count, 9223372036854775807 - r.count),
                last_at = greatest(r.last_at, p_at), acquisition = p_acquisition, append_id = p_append,
                current_holder = p_current_holder, current_acquisition = p_current_acquisition,
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
            update fenced_ledger.rejection r
                set count = r.count + least(p_count, 9223372036854775807 - r.count),
                    last_at = greatest(r.last_at, p_at)
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
