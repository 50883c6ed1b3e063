-- A page of events, descending (D1, D2).
SELECT
    position, entry_id, first, generation, holder, acquisition, recorded_at, content, chain, kind, metadata, payload
FROM fenced_log
WHERE partition = ?1 AND position <= ?2
ORDER BY position DESC
LIMIT ?3
