-- The `$claimed` entry of a generation and the one after it: how that tenure ended (R3).
SELECT position, generation, holder, acquisition, payload
FROM fenced_log
WHERE partition = ?1 AND kind = '$claimed' AND generation >= ?2
ORDER BY generation
LIMIT 2
