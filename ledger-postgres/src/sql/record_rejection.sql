-- E2: keeps the record of a refusal that a caller's transaction carried out of itself. What it says is the caller's word:
-- evidence is outside of the chain (E5), and who may append may write it.
create function fenced_ledger.record_rejection(
    p_name text, p_generation bigint, p_operation text, p_reason text, p_holder text, p_presented bigint,
    p_remark text, p_acquisition uuid, p_append uuid, p_current_holder text, p_current_acquisition uuid,
    p_current_expires_at bigint, p_revision bigint, p_at bigint, p_wait integer
) returns text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp set enable_seqscan = off as
$$
#variable_conflict error
declare
    scope bigint;
begin
    if p_wait is not null then perform set_config('lock_timeout', p_wait::text, true); end if;
    if p_generation is null then
        scope := 0;
    else
        select x.id into scope from fenced_ledger.partition x where x.name = p_name and x.generation >= p_generation;
        -- A record of a partition or a generation that this ledger never had.
        if scope is null then return null; end if;
    end if;
    return fenced_ledger.refuse(scope, p_name, coalesce(p_generation, 0), p_operation, p_reason, p_holder, p_presented,
        p_remark, p_acquisition, p_append, p_current_holder, p_current_acquisition, p_current_expires_at, p_revision,
        p_at, false);
end
$$;
