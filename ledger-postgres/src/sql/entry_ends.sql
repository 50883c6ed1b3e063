-- D1, D2: the entries that events belong to which are not their entry's last: $1 partition, $2 positions. A row for each
-- position; `is_there` is false where the log ends before it, as on a standby that is behind the one that gave the page.
select coalesce(
        (select l.position from fenced_ledger.log l where l.partition = x.id order by l.position desc limit 1),
        x.head) >= m.position as is_there,
    e.position, e.entry_id, e.first, e.generation, e.holder, e.acquisition, e.recorded_at, e.content, e.chain
from fenced_ledger.partition x
cross join pg_catalog.unnest($2) m (position)
left join lateral (
    select * from fenced_ledger.log l
    where l.partition = x.id and l.position >= m.position and l.first is not null
    order by l.position limit 1) e on true
where x.name = $1
