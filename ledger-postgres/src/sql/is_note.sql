-- C3, I4, S5: whether a text is what the library takes for an operator's reason: a name with something beside blanks. The
-- characters are those that Rust takes for white space, in every locale.
create function fenced_ledger.is_note(p_text text) returns boolean language sql immutable as
$$
    select fenced_ledger.is_name(p_text)
        and p_text ~ E'[^ \\u00a0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]'
$$;
