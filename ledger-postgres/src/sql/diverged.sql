-- G4: whether lease and log contradict each other, seen from the newest entry alone. The same as
-- `Standing::has_diverged` in ledger-core.
create function fenced_ledger.diverged(
    p_generation bigint, p_holder text, p_acquisition uuid, p_vacancy text, p_head bigint, p_chain bytea,
    p_tip bigint, p_tip_id uuid, p_tip_generation bigint, p_tip_holder text, p_tip_acquisition uuid, p_tip_chain bytea
) returns boolean language sql immutable as
$$
    select case
        -- The row of a first claim, before its entry.
        when p_generation = 0 then p_tip is not null
        -- No log, a newest row that is no end of an entry, or a tail that was cut.
        when p_tip_chain is null or p_tip < p_head then true
        when p_tip_generation <> p_generation or p_tip_holder <> p_holder or p_tip_acquisition <> p_acquisition then true
        when p_tip = p_head and p_tip_chain <> p_chain then true
        -- The ledger's own entries are written with the row: a row behind one was rewound.
        when p_tip <> p_head and (p_tip_id is null or p_tip_id = p_tip_acquisition) then true
        else (p_tip_id is null) <> (p_vacancy is not null) end
$$;
