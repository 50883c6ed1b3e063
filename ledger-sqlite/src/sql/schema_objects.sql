-- Everything that stands on the ledger's tables, to be compared with what was installed (S1).
SELECT type, name, sql
FROM main.sqlite_schema
WHERE tbl_name LIKE 'fenced\_%' ESCAPE '\'
ORDER BY type, name
