-- S1, U4: whether the server that answers takes writes. A standby is read-only, and so is a primary whose operator has
-- said so for a switch-over.
select pg_catalog.pg_is_in_recovery() as in_recovery,
    current_setting('transaction_read_only')::boolean as read_only
