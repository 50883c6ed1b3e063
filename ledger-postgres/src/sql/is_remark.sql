-- E1, S5: whether a text is what the library takes for a remark: 1 to 2048 bytes without a control character.
create function fenced_ledger.is_remark(p_text text) returns boolean language sql immutable as
$$
    select octet_length(p_text) between 1 and 2048 and p_text !~ E'[\\u0001-\\u001f\\u007f-\\u009f]'
$$;
