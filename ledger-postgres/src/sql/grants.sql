-- S5: what a role needs to append and to read. It can not write a table, nor call the helpers.
grant usage on schema fenced_ledger to the_role;
grant select on all tables in schema fenced_ledger to the_role;
grant execute on function fenced_ledger.append, fenced_ledger.append_group, fenced_ledger.look, fenced_ledger.claim,
    fenced_ledger.renew, fenced_ledger.release, fenced_ledger.record_rejection, fenced_ledger.count_rejections,
    fenced_ledger.observe, fenced_ledger.fate, fenced_ledger.partitions, fenced_ledger.rejections, fenced_ledger.clock
    to the_role;
grant execute on procedure fenced_ledger.append_and_commit, fenced_ledger.claim_and_commit,
    fenced_ledger.renew_and_commit, fenced_ledger.release_and_commit,
    fenced_ledger.record_rejection_and_commit, fenced_ledger.count_rejections_and_commit to the_role;
