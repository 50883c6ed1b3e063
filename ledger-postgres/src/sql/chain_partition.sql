-- I1: of a link's input what is the same for all entries of a generation: version, ledger, partition, generation. Immutable, as
-- a column of the partition is made of it: the encoding of a database never changes, and is UTF-8 (S1).
create or replace function fenced_ledger.chain_partition(p_ledger uuid, p_name text, p_generation bigint)
returns bytea language sql immutable as
$$ select decode('01', 'hex') || uuid_send(p_ledger) || sha256(convert_to(p_name, 'UTF8')) || int8send(p_generation) $$;
