-- D1, D2, D4 to D6, A6: a page of events, descending; $2 is NULL for the head. All else as in page.sql.
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
        where l.partition = (select f.id from found f) and l.position <= coalesce($2, (select f.head from found f))
        order by l.position desc limit 64) s
)
select null::text as kind, null::json as payload, null::json as metadata, f.head as position, null::uuid as entry_id,
    r.events as first, f.generation, null::text as holder, null::uuid as acquisition, null::bigint as recorded_at,
    null::bytea as content, null::bytea as chain
from found f, room r
union all (
    select l.kind, l.payload, l.metadata, l.position, l.entry_id, l.first, l.generation, l.holder, l.acquisition,
        l.recorded_at, l.content, l.chain
    from fenced_ledger.log l
    where l.partition = (select f.id from found f) and l.position <= coalesce($2, (select f.head from found f))
    order by l.position desc limit (select r.events from room r))
