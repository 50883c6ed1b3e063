-- T3, R1: a moment plus a TTL; stays at the largest moment rather than overflow, as `Timestamp::after` does.
create function fenced_ledger.later(p_at bigint, p_by bigint) returns bigint language sql immutable as
$$ select case when p_at > 9223372036854775807 - p_by then 9223372036854775807 else p_at + p_by end $$;
