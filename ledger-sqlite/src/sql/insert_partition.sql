-- The first claim of a partition (C2): under the write lock, so one of those that race is first.
INSERT INTO fenced_partition (
    name, generation, holder, acquisition, ttl, expires_at, vacancy, vacancy_reason, renewals, recorded_at, head, chain
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
