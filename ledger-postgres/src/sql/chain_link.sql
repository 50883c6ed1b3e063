-- I1: the chain value after an entry, from the one before it, with what a partition's and a tenure's entries have in common
-- computed already.
create function fenced_ledger.chain_link(
    p_chain bytea, p_partition bytea, p_first bigint, p_last bigint, p_recorded_at bigint, p_tenure bytea, p_id uuid,
    p_content bytea
) returns bytea language sql immutable as
$$
    select sha256(p_chain
        || fenced_ledger.chain_rest(p_partition, p_first, p_last, p_recorded_at, p_tenure, p_id, p_content))
$$;
