-- S3: one migration of a schema at a time. A lock of the transaction, so that it goes with it, also behind a transaction
-- pooler; its key comes from the schema's name, so that two schemas of one database do not wait for each other.
select pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('fenced-ledger/migrate/' || $1, 0))
