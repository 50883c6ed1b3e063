-- I1: the chain value of a partition before its first entry. The layout stands in ledger-core's `chain`.
-- No SET and no SECURITY DEFINER: it is inlined into the functions that call it. STABLE, as convert_to is.
create function fenced_ledger.chain_start(p_ledger uuid, p_name text) returns bytea language sql stable as
$$ select sha256(convert_to('fenced-ledger/chain/1', 'UTF8') || uuid_send(p_ledger) || sha256(convert_to(p_name, 'UTF8'))) $$;
