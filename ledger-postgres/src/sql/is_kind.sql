-- A6, S5: whether a text is what the library takes for the kind of an event: a name (see is_name.sql) that is none of the
-- ledger's own. Few parts, as each of them costs every append its start.
create function fenced_ledger.is_kind(p_text text) returns boolean language sql immutable as
$$
    select octet_length(p_text) <= 255 and p_text !~ E'^(\\$|$)|[\\u0001-\\u001f\\u007f-\\u009f]'
$$;
