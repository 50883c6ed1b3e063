-- C3, I4: what an operator's role needs beside the grants of a writer.
grant execute on function fenced_ledger.end_tenure, fenced_ledger.advance to the_role;
grant execute on procedure fenced_ledger.end_tenure_and_commit, fenced_ledger.advance_and_commit to the_role;
