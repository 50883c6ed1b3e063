-- D1, D2, D4, A6: a page of events. STABLE, so head and events are of one snapshot, and no transaction is open between
-- two pages. The caller's own rights: reading needs SELECT on the tables.
--
-- The first row is the header: the newest position and its generation; no row where the partition was never claimed.
-- Rows without a kind after it are the end of an entry of which only a part is on the page. A page ends early once it
-- has `p_bytes` of text.
create function fenced_ledger.read(
    p_name text, p_from bigint, p_limit integer, p_backward boolean, p_bytes bigint
) returns table (
    "position" bigint, kind text, payload text, metadata text,
    entry_id uuid, first bigint, generation bigint, holder text, acquisition uuid, recorded_at bigint,
    content bytea, chain bytea
)
language plpgsql stable set search_path = pg_catalog, pg_temp set enable_seqscan = off as
$$
#variable_conflict use_column
declare
    found_id bigint;
    start bigint := p_from;
    bytes bigint := 0;
begin
    select x.id, x.generation, coalesce(t.position, x.head) into found_id, generation, "position"
        from fenced_ledger.partition x
        left join lateral (
            select l.position from fenced_ledger.log l where l.partition = x.id order by l.position desc limit 1) t on true
        where x.name = p_name;
    if found_id is null then return; end if;
    return next;
    if p_backward then
        start := coalesce(start, "position");
        -- The entry that the page starts inside of.
        for kind, "position", entry_id, first, generation, holder, acquisition, recorded_at, content, chain in
            select null, l.position, l.entry_id, l.first, l.generation, l.holder, l.acquisition, l.recorded_at, l.content,
                l.chain
            from fenced_ledger.log l where l.partition = found_id and l.position >= start and l.first is not null
            order by l.position limit 1
        loop
            return next;
        end loop;
        for "position", kind, payload, metadata, entry_id, first, generation, holder, acquisition, recorded_at, content,
            chain in
            select l.position, l.kind, l.payload::text, l.metadata::text, l.entry_id, l.first, l.generation, l.holder,
                l.acquisition, l.recorded_at, l.content, l.chain
            from fenced_ledger.log l where l.partition = found_id and l.position <= start
            order by l.position desc limit p_limit
        loop
            return next;
            bytes := bytes + octet_length(payload) + octet_length(metadata);
            exit when bytes >= p_bytes;
        end loop;
        return;
    end if;
    for "position", kind, payload, metadata, entry_id, first, generation, holder, acquisition, recorded_at, content,
        chain in
        select l.position, l.kind, l.payload::text, l.metadata::text, l.entry_id, l.first, l.generation, l.holder,
            l.acquisition, l.recorded_at, l.content, l.chain
        from fenced_ledger.log l where l.partition = found_id and l.position >= p_from
        order by l.position limit p_limit
    loop
        return next;
        start := "position";
        bytes := bytes + octet_length(payload) + octet_length(metadata);
        exit when bytes >= p_bytes;
    end loop;
    if kind is null or first is not null then return; end if;
    -- The entry that the page ends inside of.
    for kind, payload, metadata, "position", entry_id, first, generation, holder, acquisition, recorded_at, content,
        chain in
        select null, null, null, l.position, l.entry_id, l.first, l.generation, l.holder, l.acquisition, l.recorded_at,
            l.content, l.chain
        from fenced_ledger.log l where l.partition = found_id and l.position > start and l.first is not null
        order by l.position limit 1
    loop
        return next;
    end loop;
end
$$;
