-- E2, E3: whether a call that says so is a transaction of its own, so that it may leave the count of a repeat unflushed.
-- It must never loosen the durability of what a caller wrote beside it (S2). Two things prove it: a single statement of
-- the simple protocol starts with its transaction; and the library's own sessions, which hold nothing else, and its
-- procedures, which commit, say so by a setting. (In the extended protocol a transaction begins with the Bind message
-- and the statement with the Execute message, some microseconds later.)
create function fenced_ledger.lone() returns boolean language sql stable as
$$
    select transaction_timestamp() = statement_timestamp()
        or current_setting('fenced.own', true) is not distinct from 'on'
$$;
