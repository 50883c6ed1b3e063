-- The layout, version 2: an operator's advances (I4) are found as the tenures are (R3).
DROP INDEX fenced_log_by_claim;
CREATE INDEX fenced_log_by_claim ON fenced_log (partition, generation) WHERE kind = '$claimed' OR kind = '$advanced';
