-- S1, S3, S4: what opening a ledger asks the server, in one statement: its settings, the schema's version, the ledger's
-- id, and the source of the clock.
select
    current_setting('server_version') as version,
    current_setting('server_version_num')::integer as version_number,
    current_setting('server_encoding') as encoding,
    current_setting('default_transaction_isolation') as isolation,
    current_setting('fsync') as fsync,
    current_setting('full_page_writes') as full_page_writes,
    current_setting('synchronous_commit') as synchronous_commit,
    pg_catalog.pg_is_in_recovery() as in_recovery,
    -- In milliseconds, whatever unit it was set with.
    (select s.setting::bigint from pg_catalog.pg_settings s where s.name = 'lock_timeout') as lock_timeout,
    (select max(m.version) from fenced_ledger.migration m) as schema_version,
    (select g.id from fenced_ledger.ledger g) as ledger,
    (select p.prosrc from pg_catalog.pg_proc p join pg_catalog.pg_namespace n on n.oid = p.pronamespace
        where n.nspname = $1 and p.proname = 'clock' and p.pronargs = 0) as clock
