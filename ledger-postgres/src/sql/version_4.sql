-- The layout, version 4: a partition keeps of a link's input (I1) what its entries have in common, so that an append does not hash
-- two names anew. Written by the store itself from the columns beside it, whoever writes those. The step rewrites this one table.
--
-- The clock changes its text: the same reading, without an excursion through decimal numbers.
alter table fenced_ledger.partition
    add column chain_partition bytea not null
        generated always as (fenced_ledger.chain_partition(ledger, name, generation)) stored,
    add column chain_tenure bytea not null
        generated always as (fenced_ledger.chain_tenure(acquisition, holder)) stored;

-- A group answers by append.
drop function if exists fenced_ledger.append_many(
    text[], bigint[], uuid[], text[], integer[], uuid[], bigint[], bytea[], integer[], text[], text[], text[], bigint[],
    integer);
