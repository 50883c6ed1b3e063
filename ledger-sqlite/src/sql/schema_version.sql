-- The version of the layout (S1, S3).
SELECT max(version) AS version FROM fenced_migration
