-- The layout, version 3: `refuse` judges what a record may say (S5), all of it, where three constraints judged a part. The server
-- reads a constraint anew in each statement, which cost a repeated refusal a third of its time. The step takes the lock of this one
-- table, for a moment, and reads no row (S3).
alter table fenced_ledger.rejection
    drop constraint rejection_sizes, drop constraint rejection_remark, drop constraint rejection_presented;
