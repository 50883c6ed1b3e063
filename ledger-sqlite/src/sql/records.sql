-- Rejection records of one scope, in the order of their slots (E1 to E3); of one partition alone where ?5 names it.
SELECT
    scope, generation, slot, partition_name, operation, reason, holder, presented, remark, acquisition, append_id,
    current_holder, current_acquisition, current_expires_at, revision, count, first_at, last_at
FROM fenced_rejection
WHERE scope = ?1 AND (generation, slot) > (?2, ?3) AND (?5 IS NULL OR partition_name = ?5)
ORDER BY generation, slot
LIMIT ?4
