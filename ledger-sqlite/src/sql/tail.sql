-- Where a log ends, whatever the lease says (I4): the newest position, and the newest entry that has its end,
-- up to a position.
SELECT
    (SELECT max(l.position) FROM fenced_log AS l WHERE l.partition = ?1) AS last,
    t.position, t.entry_id, t.first, t.generation, t.holder, t.acquisition, t.recorded_at, t.content, t.chain
FROM (SELECT 1)
LEFT JOIN fenced_log AS t
    ON t.partition = ?1
    AND t.position = (SELECT max(l.position) FROM fenced_log AS l WHERE l.partition = ?1 AND l.position <= ?2 AND l.first IS NOT NULL)
