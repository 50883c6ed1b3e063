-- S3: the version that the schema is at.
select max(m.version) from fenced_ledger.migration m
