-- One event, with the facts of its entry on the entry's last (A2, A3). No row where the id is taken: an append of one
-- event is written without a look for its id first, and judged again where it is no new one (A4). A position that is taken
-- is a constraint error: never met in normal operation, and answered as corrupt (A1, U1).
INSERT INTO fenced_log (
    partition, position, entry_id, first, generation, holder, acquisition, recorded_at, content, chain,
    kind, metadata, payload
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
ON CONFLICT (entry_id, partition) WHERE entry_id IS NOT NULL DO NOTHING
