-- The entry that has an id, over the partition's whole life (A4, C4, J3, U2).
SELECT position, entry_id, first, generation, holder, acquisition, recorded_at, content, chain
FROM fenced_log
WHERE entry_id = ?1 AND partition = ?2
