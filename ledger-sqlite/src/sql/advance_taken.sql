-- The `$advanced` entry that has an acquisition (I4): whether an operator's step was taken before.
SELECT
    position, entry_id, first, generation, holder, acquisition, recorded_at, content, chain, payload
FROM fenced_log
WHERE partition = ?1 AND kind = '$advanced' AND acquisition = ?2
LIMIT 1
