-- I1: of a link's input what is the same for all entries of a generation: version, ledger, partition, generation.
create function fenced_ledger.chain_partition(p_ledger uuid, p_name text, p_generation bigint)
returns bytea language sql stable as
$$ select decode('01', 'hex') || uuid_send(p_ledger) || sha256(convert_to(p_name, 'UTF8')) || int8send(p_generation) $$;
