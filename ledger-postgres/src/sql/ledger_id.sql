-- D4, J4: which ledger the server has. Of several hosts, one may be of another cluster.
select g.id as ledger from fenced_ledger.ledger g
