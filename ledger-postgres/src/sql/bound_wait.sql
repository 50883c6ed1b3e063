-- U4, S2: how a call begins that is a transaction of its own, over a connection with settings that may be another's: it bounds
-- each wait for a lock, in milliseconds, and is flushed where somebody has turned that off for the session. (Opening a
-- ledger asks one connection, once; and behind a transaction pooler a SET reaches whoever comes next.) A repeat that need
-- not be flushed (E3) says so later. Inlined where it is called.
create function fenced_ledger.bound_wait(p_wait integer) returns text language sql volatile as
$$
    select set_config('lock_timeout', p_wait::text, true)
        || case when current_setting('synchronous_commit') = 'off' then set_config('synchronous_commit', 'on', true) end
$$;
