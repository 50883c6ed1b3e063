-- Repeats of a record, with the facts of the last one (E3). A time that a stepped-back clock read does not win.
-- What comes back tells a reader whether it sees this write; nothing does where the place is empty or of another key, as
-- in a restored copy.
UPDATE fenced_rejection
SET count = count + ?4, last_at = max(last_at, ?5),
    acquisition = ?6, append_id = ?7, current_holder = ?8, current_acquisition = ?9, current_expires_at = ?10,
    revision = ?11
WHERE scope = ?1 AND generation = ?2 AND slot = ?3
    AND operation IS ?12 AND reason IS ?13 AND holder IS ?14 AND presented IS ?15 AND remark IS ?16
    AND (scope <> 0 OR slot = 257 OR partition_name IS ?17)
RETURNING count
