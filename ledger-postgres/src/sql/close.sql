-- S5: new functions may be called by everybody, so that is taken back; what a role may call is granted by name.
revoke all on all routines in schema fenced_ledger from public;
