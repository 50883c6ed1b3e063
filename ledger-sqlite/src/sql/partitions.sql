-- Names of partitions in the order of their bytes (D2).
SELECT name
FROM fenced_partition
WHERE name > ?1
ORDER BY name
LIMIT ?2
