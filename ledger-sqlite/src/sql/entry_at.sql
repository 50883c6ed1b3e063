-- The end of the entry that an event in the middle of it belongs to (D2).
SELECT position, entry_id, first, generation, holder, acquisition, recorded_at, content, chain
FROM fenced_log
WHERE partition = ?1 AND position >= ?2 AND first IS NOT NULL
ORDER BY position
LIMIT 1
