-- S3: the step that was taken.
insert into fenced_ledger.migration (version, applied_at, applied_by) values ($1, fenced_ledger.clock(), $2)
