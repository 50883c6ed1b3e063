-- The layout, version 2: a partition knows the ledger that it is of. The chain has it in each link (I1), and a look-up
-- of one row in another table costs an append as much as that of its newest entry.
alter table fenced_ledger.partition add column ledger uuid;
update fenced_ledger.partition x set ledger = g.id from fenced_ledger.ledger g;
alter table fenced_ledger.partition alter column ledger set not null;

-- An operator's advance (I4) is a vacancy with a reason too, and found as a tenure is.
alter table fenced_ledger.partition drop constraint partition_vacancy;
alter table fenced_ledger.partition add constraint partition_vacancy check (
    vacancy in ('released', 'ended', 'advanced') and (vacancy <> 'released') = (vacancy_reason is not null));
drop index fenced_ledger.log_claimed;
create index log_claimed on fenced_ledger.log ((partition + 0), generation) where kind in ('$claimed', '$advanced');

-- What the library takes for a name, an id and a generation, for whoever calls the functions by hand (S5): a record of
-- another would spoil the page that it stands on. What is stored already stays.
alter table fenced_ledger.rejection add constraint rejection_presented check (
    octet_length(name) > 0 and name !~ E'[\\u0001-\\u001f\\u007f-\\u009f]'
    and octet_length(holder) > 0 and holder !~ E'[\\u0001-\\u001f\\u007f-\\u009f]'
    and presented >= 0 and acquisition <> '00000000-0000-0000-0000-000000000000'
    and append_id <> '00000000-0000-0000-0000-000000000000') not valid;

-- What nothing calls any more: pages are plain statements, and the other two have an argument more.
drop function if exists fenced_ledger.read(text, bigint, integer, boolean, bigint);
drop function if exists fenced_ledger.refuse(
    bigint, text, bigint, text, text, text, bigint, text, uuid, uuid, text, uuid, bigint, bigint, bigint, boolean);
drop function if exists fenced_ledger.append_many(
    text[], bigint[], uuid[], text[], integer[], uuid[], bigint[], bytea[], integer[], text[], text[], text[], integer);
