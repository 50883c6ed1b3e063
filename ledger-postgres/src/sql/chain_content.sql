-- I1: the digest of an entry's events. The store computes it for its own events; an append brings its own, which the
-- store trusts and `verify` recomputes.
create function fenced_ledger.chain_content(p_kinds text[], p_payloads text[], p_metadata text[])
returns bytea language sql stable as
$$
    select sha256(int8send(cardinality(p_kinds)) || string_agg(
        int8send(octet_length(convert_to(u.k, 'UTF8'))) || convert_to(u.k, 'UTF8')
        || int8send(octet_length(convert_to(u.p, 'UTF8'))) || convert_to(u.p, 'UTF8')
        || int8send(octet_length(convert_to(u.m, 'UTF8'))) || convert_to(u.m, 'UTF8'), ''::bytea order by u.n))
    from unnest(p_kinds, p_payloads, p_metadata) with ordinality u (k, p, m, n)
$$;
