-- Repeats of a record, with the facts of the last one (E3). A time that a stepped-back clock read does not win.
-- What comes back tells a reader whether it sees this write.
UPDATE fenced_rejection
SET count = count + ?4, last_at = max(last_at, ?5),
    acquisition = ?6, append_id = ?7, current_holder = ?8, current_acquisition = ?9, current_expires_at = ?10,
    revision = ?11
WHERE scope = ?1 AND generation = ?2 AND slot = ?3
RETURNING count
