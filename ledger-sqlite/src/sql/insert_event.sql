-- One event, with the facts of its entry on the entry's last (A2, A3). A position that is taken is a constraint error: never met
-- in normal operation, and answered as corrupt (A1, U1). So is an id, but that of an append of one event, which may be a
-- replay: it is looked for first only where the events are several (A4).
INSERT INTO fenced_log (
    partition, position, entry_id, first, generation, holder, acquisition, recorded_at, content, chain,
    kind, metadata, payload
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
