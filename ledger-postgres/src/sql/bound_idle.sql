-- C6, T4: a transaction that holds a partition and stalls blocks its takeover. Lowers the idle-in-transaction time-out
-- for the rest of the transaction, and never raises one that the caller has set.
create function fenced_ledger.bound_idle(p_idle integer) returns void language plpgsql as
$$
declare
    -- Printed with a unit, such as `10s`, which an interval reads; 0 means never.
    present bigint := extract(epoch from current_setting('idle_in_transaction_session_timeout')::interval) * 1000;
begin
    if present = 0 or present > p_idle then
        perform set_config('idle_in_transaction_session_timeout', p_idle::text, true);
    end if;
end
$$;
