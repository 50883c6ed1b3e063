-- The layout, version 2: a partition knows the ledger that it is of. The chain has it in each link (I1), and a look-up
-- of one row in another table costs an append as much as that of its newest entry.
alter table fenced_ledger.partition add column ledger uuid;
update fenced_ledger.partition x set ledger = g.id from fenced_ledger.ledger g;
alter table fenced_ledger.partition alter column ledger set not null;
