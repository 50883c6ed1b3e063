-- The layout, version 4: a partition keeps of a link's input (I1) what its entries have in common, so that an append does not
-- hash two names anew: chain_partition.sql and chain_tenure.sql of its own columns. Written by an UPDATE: a snapshot from
-- before a rewrite of the table would see no partition at all.
alter table fenced_ledger.partition add column chain_partition bytea, add column chain_tenure bytea;
update fenced_ledger.partition set
    chain_partition = decode('01', 'hex') || uuid_send(ledger) || sha256(convert_to(name, 'UTF8')) || int8send(generation),
    chain_tenure = uuid_send(acquisition) || sha256(convert_to(holder, 'UTF8'));
alter table fenced_ledger.partition alter column chain_partition set not null, alter column chain_tenure set not null;

-- It has another name now, as it answers otherwise: older handles find it gone, and their appends go one by one.
drop function if exists fenced_ledger.append_many(
    text[], bigint[], uuid[], text[], integer[], uuid[], bigint[], bytea[], integer[], text[], text[], text[], bigint[],
    integer);
