-- E3: the digest of what a record's key has beside budget and generation. Neither a name nor a remark has a control
-- character, so a line feed separates. What is NULL is left out: `p_name` is there where the partition was never claimed
-- and nowhere else, so that one part more is a remark.
create function fenced_ledger.rejection_key(
    p_operation text, p_reason text, p_presented bigint, p_holder text, p_name text, p_remark text
) returns bytea language sql stable as
$$
    select substr(sha256(convert_to(concat_ws(E'\n', p_operation, p_reason, p_presented, p_holder, p_name, p_remark),
        'UTF8')), 1, 16)
$$;
