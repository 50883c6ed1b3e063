-- The names of the partitions that were ever claimed, in the order of their bytes (COLLATE "C"). D1.
create function fenced_ledger.partitions(p_after text, p_limit integer) returns table (name text)
language plpgsql stable set search_path = pg_catalog, pg_temp set enable_seqscan = off as
$$
#variable_conflict use_column
begin
    return query select x.name from fenced_ledger.partition x
        where x.name > coalesce(p_after, '') collate "C" order by x.name limit p_limit;
end
$$;
