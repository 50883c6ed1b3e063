-- D2: the entries that events belong to which are not their entry's last: $1 partition, $2 positions.
select e.position, e.entry_id, e.first, e.generation, e.holder, e.acquisition, e.recorded_at, e.content, e.chain
from fenced_ledger.partition x
cross join pg_catalog.unnest($2) m (position)
cross join lateral (
    select * from fenced_ledger.log l
    where l.partition = x.id and l.position >= m.position and l.first is not null
    order by l.position limit 1) e
where x.name = $1
