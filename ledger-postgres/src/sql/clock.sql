-- The store's clock (T1, T2): whole microseconds since 1970, exact: until 2100 a double tells each from the next (tests/sql.rs), and
-- decimal numbers cost three times as much. A function of the schema, so that a test can step it; opening a ledger compares
-- its source with this one. SQL, so that it is inlined; not `now()`, which stands still over a transaction (T4).
create or replace function fenced_ledger.clock() returns bigint language sql volatile as
$$ select (pg_catalog.date_part('epoch', pg_catalog.clock_timestamp()) * 1000000)::bigint $$;
