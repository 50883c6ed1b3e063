-- D1: how far the server has come: what it shows is everything up to here.
select pg_catalog.pg_is_in_recovery() as standby,
    (case when pg_catalog.pg_is_in_recovery() then pg_catalog.pg_last_wal_replay_lsn()
        else pg_catalog.pg_current_wal_lsn() end)::text as lsn,
    (extract(epoch from pg_catalog.pg_last_xact_replay_timestamp()) * 1000000)::bigint as committed_at
