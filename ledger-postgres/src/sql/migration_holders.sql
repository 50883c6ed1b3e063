-- S3: which sessions hold which tables of the schema: what a migration has waited for, told to people.
select pg_catalog.string_agg(h.name || ' by session ' || h.pid, ', ') from (
    select distinct c.relname as name, l.pid
    from pg_catalog.pg_locks l
    join pg_catalog.pg_class c on c.oid = l.relation and c.relkind = 'r'
    join pg_catalog.pg_namespace n on n.oid = c.relnamespace and n.nspname = $1
    join pg_catalog.pg_database d on d.oid = l.database and d.datname = current_database()
    where l.granted and l.pid <> pg_catalog.pg_backend_pid()
    order by c.relname, l.pid limit 10) h
