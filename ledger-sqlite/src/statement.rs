//! The statements: one a file, each naming the rules that it upholds.

/// What each version of the layout brings.
pub(crate) const VERSIONS: [&str; 2] = [include_str!("sql/schema.sql"), include_str!("sql/version_2.sql")];
pub(crate) const INSERT_LEDGER: &str = include_str!("sql/insert_ledger.sql");
pub(crate) const LEDGER_ID: &str = include_str!("sql/ledger_id.sql");
pub(crate) const INSERT_MIGRATION: &str = include_str!("sql/insert_migration.sql");
pub(crate) const SCHEMA_VERSION: &str = include_str!("sql/schema_version.sql");
pub(crate) const SCHEMA_OBJECTS: &str = include_str!("sql/schema_objects.sql");
pub(crate) const BEGIN: &str = include_str!("sql/begin.sql");
pub(crate) const COMMIT: &str = include_str!("sql/commit.sql");
pub(crate) const LOCK: &str = include_str!("sql/lock.sql");
pub(crate) const STANDING: &str = include_str!("sql/standing.sql");
pub(crate) const ENTRY_BY_ID: &str = include_str!("sql/entry_by_id.sql");
pub(crate) const ENTRY_AT: &str = include_str!("sql/entry_at.sql");
pub(crate) const CLAIMS_FROM: &str = include_str!("sql/claims_from.sql");
pub(crate) const ADVANCE_TAKEN: &str = include_str!("sql/advance_taken.sql");
pub(crate) const TAIL: &str = include_str!("sql/tail.sql");
pub(crate) const INSERT_PARTITION: &str = include_str!("sql/insert_partition.sql");
pub(crate) const UPDATE_PARTITION: &str = include_str!("sql/update_partition.sql");
pub(crate) const INSERT_EVENT: &str = include_str!("sql/insert_event.sql");
pub(crate) const PAGE_FORWARD: &str = include_str!("sql/page_forward.sql");
pub(crate) const PAGE_OF_KIND: &str = include_str!("sql/page_of_kind.sql");
pub(crate) const PAGE_BACKWARD: &str = include_str!("sql/page_backward.sql");
pub(crate) const PARTITIONS: &str = include_str!("sql/partitions.sql");
pub(crate) const RECORDS_OF_BUDGET: &str = include_str!("sql/records_of_budget.sql");
pub(crate) const INSERT_RECORD: &str = include_str!("sql/insert_record.sql");
pub(crate) const COUNT_RECORD: &str = include_str!("sql/count_record.sql");
pub(crate) const RECORDS: &str = include_str!("sql/records.sql");
