-- A page of events of one kind, ascending, out of the positions up to ?3 (D7).
SELECT
    position, entry_id, first, generation, holder, acquisition, recorded_at, content, chain, kind, metadata, payload
FROM fenced_log
WHERE partition = ?1 AND position BETWEEN ?2 AND ?3 AND kind = ?4
ORDER BY position
LIMIT ?5
