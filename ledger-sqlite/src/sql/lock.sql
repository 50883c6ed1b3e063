-- Takes the write lock of a caller's transaction and changes nothing (A1, T4): SQLite takes it when a statement that
-- may write begins, whether a row is met or not.
UPDATE fenced_ledger SET only = only WHERE FALSE
