-- What every judged call answers: the outcome as a row, never as exception text. One type for all, so that the library
-- reads one shape, and the procedures below have the same columns as OUT parameters.
create type fenced_ledger.answer as (
    verdict text,
    -- The partition as it stands after the call; NULL where it was never claimed.
    generation bigint,
    holder text,
    acquisition uuid,
    ttl bigint,
    expires_at bigint,
    vacancy text,
    vacancy_reason text,
    recorded_at bigint,
    head bigint,
    chain bytea,
    -- The judgement (J2).
    judged_at bigint,
    revision bigint,
    clock_behind boolean,
    -- The entry: written now, replayed, or the earlier one of a refused append (A4, A7, J3).
    entry_id uuid,
    entry_first bigint,
    entry_generation bigint,
    entry_holder text,
    entry_acquisition uuid,
    entry_recorded_at bigint,
    entry_content bytea,
    entry_chain bytea,
    entry_last bigint,
    -- What became of the record of a refusal (E2): Stored, Counted, or NULL where none was to be kept.
    record text,
    -- The payload of the `$claimed` entry that followed an older tenure (R3).
    successor text
);
