-- The lease after a claim, a renewal, a release, an operator's step or the first refusal as expired (G4, R1, T2).
UPDATE fenced_partition
SET generation = ?2, holder = ?3, acquisition = ?4, ttl = ?5, expires_at = ?6, vacancy = ?7, vacancy_reason = ?8,
    renewals = ?9, recorded_at = ?10, head = ?11, chain = ?12
WHERE partition = ?1
