-- Records a step of the layout, in the transaction that takes it (S3).
INSERT INTO fenced_migration (version, applied_at, applied_by) VALUES (?1, ?2, ?3)
