-- A6, S5: whether all of several texts are kinds of events. Of one text `is_kind` says it without a query.
create function fenced_ledger.are_kinds(p_texts text[]) returns boolean language sql immutable as
$$
    select bool_and(fenced_ledger.is_kind(u.kind) is true) from unnest(p_texts) u (kind)
$$;
