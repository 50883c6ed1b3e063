-- E2, T2: keeps the record of a refusal that a caller's transaction carried out of itself. What it says is the caller's word:
-- evidence is outside of the chain (E5), and who may append may write it.
--
-- That transaction may have taken the time of an expiry back with it. So that is stored here: by the schema's clock, read
-- under the partition's lock, as in `append`, and not by the caller's word.
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
    clock_at bigint;
begin
    if p_wait is not null then perform fenced_ledger.bound_wait(p_wait); end if;
    if p_generation is null then
        scope := 0;
    else
        select x.id into scope from fenced_ledger.partition x
            where x.name = p_name and p_generation between 1 and x.generation;
        -- A record of a partition or a generation that this ledger never had.
        if scope is null then return null; end if;
        if p_reason = 'Expired' then
            perform 1 from fenced_ledger.partition x where x.id = scope
                and not fenced_ledger.visibly_ended(p_generation, x.generation, x.vacancy, x.recorded_at, x.expires_at)
                for no key update;
            if found then
                clock_at := fenced_ledger.clock();
                update fenced_ledger.partition x set recorded_at = clock_at
                    where x.id = scope and x.generation = p_generation and x.vacancy is null
                        and x.recorded_at < x.expires_at and x.expires_at <= clock_at;
            end if;
        end if;
    end if;
    return fenced_ledger.refuse(scope, p_name, coalesce(p_generation, 0), p_operation, p_reason, p_holder, p_presented,
        p_remark, p_acquisition, p_append, p_current_holder, p_current_acquisition, p_current_expires_at, p_revision,
        p_at, false);
end
$$;
