-- I1: of a link's input all but the chain value before it. What a partition's and a tenure's entries have in common is stored
-- with the partition. The layout stands in ledger-core's `chain`.
create function fenced_ledger.chain_rest(
    p_partition bytea, p_first bigint, p_last bigint, p_recorded_at bigint, p_tenure bytea, p_id uuid, p_content bytea
) returns bytea language sql immutable as
$$
    select p_partition || int8send(p_first) || int8send(p_last) || int8send(p_recorded_at) || p_tenure
        || uuid_send(coalesce(p_id, '00000000-0000-0000-0000-000000000000'::uuid)) || p_content
$$;
