-- S3: bounds each wait for a lock from here to the end of the transaction.
select pg_catalog.set_config('lock_timeout', $1, true)
