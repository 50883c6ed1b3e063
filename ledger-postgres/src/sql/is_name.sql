-- A6, S5: whether a text is what the library takes for the name of a partition or of a holder: 1 to 255 bytes without a
-- control character. The library checks its input before it asks; this and is_kind.sql, is_note.sql, is_remark.sql and
-- is_id.sql are its limits again, for whoever calls the functions by hand: nobody can store what cannot be read. Inlined
-- where they are called.
create function fenced_ledger.is_name(p_text text) returns boolean language sql immutable as
$$
    select octet_length(p_text) between 1 and 255 and p_text !~ E'[\\u0001-\\u001f\\u007f-\\u009f]'
$$;
