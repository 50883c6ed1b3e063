-- E4, U2: whether a presented generation has visibly ended. It speaks of committed columns alone, so that in a locking
-- statement it may be evaluated before the wait, after it, or not again.
create function fenced_ledger.visibly_ended(
    p_presented bigint, p_generation bigint, p_vacancy text, p_recorded_at bigint, p_expires_at bigint
) returns boolean language sql immutable as
$$
    select p_generation > p_presented
        or (p_generation = p_presented and (p_vacancy is not null or p_recorded_at >= p_expires_at))
$$;
