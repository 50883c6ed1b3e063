-- I1: of a link's input what is the same for all entries of a tenure, after the time: acquisition and holder.
create function fenced_ledger.chain_tenure(p_acquisition uuid, p_holder text) returns bytea language sql stable as
$$ select uuid_send(p_acquisition) || sha256(convert_to(p_holder, 'UTF8')) $$;
