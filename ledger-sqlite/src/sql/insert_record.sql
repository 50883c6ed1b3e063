-- The first record of a key, or the overflow record (E1 to E3).
INSERT INTO fenced_rejection (
    scope, generation, slot, partition_name, operation, reason, holder, presented, acquisition, append_id,
    current_holder, current_acquisition, current_expires_at, revision, count, first_at, last_at, remark
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, 1, ?15, ?15, ?16)
