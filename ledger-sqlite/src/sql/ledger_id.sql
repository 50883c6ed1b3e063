-- The ledger of this file (D4, J4).
SELECT id FROM fenced_ledger
