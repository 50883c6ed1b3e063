-- D1, D2, D4 to D7, A6: a page of events, ascending. One statement, so head and events are of one snapshot, and nothing
-- is open between two pages. The caller's own rights: reading needs SELECT on the tables.
--
-- $1 partition, $2 from, $3 so many events, $4 so many bytes, $5 of that kind or NULL, $6 none after that position.
--
-- The row without a kind is the header: the newest position, its generation, and as `first` how many events were looked
-- for; no row where the partition was never claimed. That number comes from the bytes of the next 64 events, since to
-- add up the bytes of each costs as much again as to read it. The client keeps the bound itself and stops early. A
-- compressed value counts 16 times its stored bytes. `payload` travels as json, which is its text: a cast copies it twice.
with found as materialized (
    select x.id, x.generation, coalesce(
        (select l.position from fenced_ledger.log l where l.partition = x.id order by l.position desc limit 1),
        x.head) as head
    from fenced_ledger.partition x where x.name = $1
), room as materialized (
    select least($3, greatest(1, $4 / greatest(1, pg_catalog.avg(s.bytes))))::bigint as events
    from (
        select pg_catalog.pg_column_size(l.metadata) + pg_catalog.pg_column_size(l.payload)
            * case when pg_catalog.pg_column_compression(l.payload) is null then 1 else 16 end as bytes
        from fenced_ledger.log l
        where l.partition = (select f.id from found f) and l.position >= $2
        order by l.position limit 64) s
)
select null::text as kind, null::json as payload, null::json as metadata, f.head as position, null::uuid as entry_id,
    r.events as first, f.generation, null::text as holder, null::uuid as acquisition, null::bigint as recorded_at,
    null::bytea as content, null::bytea as chain
from found f, room r
union all (
    select l.kind, l.payload, l.metadata, l.position, l.entry_id, l.first, l.generation, l.holder, l.acquisition,
        l.recorded_at, l.content, l.chain
    from fenced_ledger.log l
    where l.partition = (select f.id from found f) and l.position between $2 and $6 and ($5 is null or l.kind = $5)
    order by l.position limit (select r.events from room r))
