-- I1: the chain value after an entry, from the one before it. The layout stands in ledger-core's `chain`.
create function fenced_ledger.chain_next(
    p_chain bytea, p_ledger uuid, p_name text, p_generation bigint, p_first bigint, p_last bigint, p_recorded_at bigint,
    p_acquisition uuid, p_holder text, p_id uuid, p_content bytea
) returns bytea language sql stable as
$$
    select sha256(
        p_chain || decode('01', 'hex') || uuid_send(p_ledger) || sha256(convert_to(p_name, 'UTF8')) || int8send(p_generation)
        || int8send(p_first) || int8send(p_last) || int8send(p_recorded_at) || uuid_send(p_acquisition)
        || sha256(convert_to(p_holder, 'UTF8'))
        || uuid_send(coalesce(p_id, '00000000-0000-0000-0000-000000000000'::uuid)) || p_content)
$$;
