-- A1, above read committed: every statement of the transaction shares one snapshot, which may be older than the lock.
-- An append does not change the partition's row, so locking that row raises nothing. This raises 40001 just where the
-- snapshot misses a row: ON CONFLICT DO NOTHING refuses to step over one that it can not see. Always undone.
create function fenced_ledger.assert_fresh(p_partition bigint, p_head bigint, p_name text)
returns void language plpgsql as
$$
begin
    begin
        if p_partition is null then
            insert into fenced_ledger.partition
                (name, generation, holder, acquisition, ttl, expires_at, renewals, recorded_at, head, chain, ledger,
                    chain_partition, chain_tenure)
                values (p_name, 0, '', '00000000-0000-0000-0000-000000000000', 0, 0, 0, 0, 0, '',
                    '00000000-0000-0000-0000-000000000000', '', '')
                on conflict do nothing;
        else
            insert into fenced_ledger.log (partition, position, kind, metadata, payload)
                values (p_partition, p_head + 1, '$probe', '0', '0') on conflict do nothing;
        end if;
        raise exception 'undo' using errcode = 'FL000';
    exception when sqlstate 'FL000' then null;
    end;
end
$$;
