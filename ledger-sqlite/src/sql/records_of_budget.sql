-- The keys that a budget has (E3): at most 257 rows.
SELECT slot, partition_name, operation, reason, holder, presented, remark
FROM fenced_rejection
WHERE scope = ?1 AND generation = ?2
ORDER BY slot
