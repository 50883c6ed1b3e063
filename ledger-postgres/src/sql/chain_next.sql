-- I1: the chain value after an entry, from the one before it.
create function fenced_ledger.chain_next(
    p_chain bytea, p_ledger uuid, p_name text, p_generation bigint, p_first bigint, p_last bigint, p_recorded_at bigint,
    p_acquisition uuid, p_holder text, p_id uuid, p_content bytea
) returns bytea language sql stable as
$$
    select fenced_ledger.chain_link(p_chain, fenced_ledger.chain_partition(p_ledger, p_name, p_generation), p_first,
        p_last, p_recorded_at, fenced_ledger.chain_tenure(p_acquisition, p_holder), p_id, p_content)
$$;
