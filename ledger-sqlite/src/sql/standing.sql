-- A partition's lease and its newest log row, in one view (A1, G4).
SELECT
    p.partition, p.generation, p.holder, p.acquisition, p.ttl, p.expires_at, p.vacancy, p.vacancy_reason,
    p.renewals, p.recorded_at, p.head, p.chain,
    t.position, t.entry_id, t.first, t.generation, t.holder, t.acquisition, t.recorded_at, t.content, t.chain
FROM fenced_partition AS p
LEFT JOIN fenced_log AS t
    ON t.partition = p.partition
    AND t.position = (SELECT max(l.position) FROM fenced_log AS l WHERE l.partition = p.partition)
WHERE p.name = ?1
