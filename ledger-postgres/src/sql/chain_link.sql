-- I1: the chain value after an entry, from the one before it, with what a tenure's entries have in common computed once.
-- The layout stands in ledger-core's `chain`.
create function fenced_ledger.chain_link(
    p_chain bytea, p_partition bytea, p_first bigint, p_last bigint, p_recorded_at bigint, p_tenure bytea, p_id uuid,
    p_content bytea
) returns bytea language sql stable as
$$
    select sha256(
        p_chain || p_partition || int8send(p_first) || int8send(p_last) || int8send(p_recorded_at) || p_tenure
        || uuid_send(coalesce(p_id, '00000000-0000-0000-0000-000000000000'::uuid)) || p_content)
$$;
