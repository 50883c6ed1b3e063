-- Names the ledger of this file, once (D4).
INSERT INTO fenced_ledger (only, id) VALUES (1, ?1)
