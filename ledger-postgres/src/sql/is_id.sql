-- A4, C4, S5: whether a UUID is what the library takes for an id: any but the nil one, which is a forgotten one.
create function fenced_ledger.is_id(p_id uuid) returns boolean language sql immutable as
$$
    select p_id <> '00000000-0000-0000-0000-000000000000'
$$;
