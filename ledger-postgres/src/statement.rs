//! The SQL: one statement or function a file, each naming the rules that it upholds.

/// What each version of the layout brings: tables and types, and the clock, which dates the steps. `fenced_ledger` in
/// them stands for the schema's name.
pub(crate) const VERSIONS: &[&[&str]] = &[
    &[include_str!("sql/tables.sql"), include_str!("sql/answer.sql"), CLOCK],
    &[include_str!("sql/version_2.sql")],
    &[include_str!("sql/version_3.sql")],
    // The clock has another text: the same reading, without decimal numbers.
    &[CLOCK, include_str!("sql/version_4.sql")],
];

/// The functions and procedures of the newest version, in their order. They replace those of an older one, which keeps
/// what was granted on them; what is new, or has other arguments, has to be granted.
pub(crate) const ROUTINES: &[&str] = &[
    include_str!("sql/later.sql"),
    include_str!("sql/is_name.sql"),
    include_str!("sql/is_kind.sql"),
    include_str!("sql/are_kinds.sql"),
    include_str!("sql/is_note.sql"),
    include_str!("sql/is_remark.sql"),
    include_str!("sql/is_id.sql"),
    include_str!("sql/bound_wait.sql"),
    include_str!("sql/chain_start.sql"),
    include_str!("sql/chain_partition.sql"),
    include_str!("sql/chain_tenure.sql"),
    include_str!("sql/chain_rest.sql"),
    include_str!("sql/chain_link.sql"),
    include_str!("sql/chain_next.sql"),
    include_str!("sql/chain_content.sql"),
    include_str!("sql/visibly_ended.sql"),
    include_str!("sql/diverged.sql"),
    include_str!("sql/state.sql"),
    include_str!("sql/assert_fresh.sql"),
    include_str!("sql/bound_idle.sql"),
    include_str!("sql/lone.sql"),
    include_str!("sql/rejection_key.sql"),
    include_str!("sql/refuse.sql"),
    include_str!("sql/append.sql"),
    include_str!("sql/append_group.sql"),
    include_str!("sql/look.sql"),
    include_str!("sql/claim.sql"),
    include_str!("sql/renew.sql"),
    include_str!("sql/release.sql"),
    include_str!("sql/end_tenure.sql"),
    include_str!("sql/advance.sql"),
    include_str!("sql/record_rejection.sql"),
    include_str!("sql/count_rejections.sql"),
    include_str!("sql/observe.sql"),
    include_str!("sql/fate.sql"),
    include_str!("sql/partitions.sql"),
    include_str!("sql/rejections.sql"),
    include_str!("sql/append_and_commit.sql"),
    include_str!("sql/claim_and_commit.sql"),
    include_str!("sql/renew_and_commit.sql"),
    include_str!("sql/release_and_commit.sql"),
    include_str!("sql/end_tenure_and_commit.sql"),
    include_str!("sql/advance_and_commit.sql"),
    include_str!("sql/record_rejection_and_commit.sql"),
    include_str!("sql/count_rejections_and_commit.sql"),
    include_str!("sql/close.sql"),
];

/// The clock of the real schema, with which a test clock is replaced.
pub(crate) const CLOCK: &str = include_str!("sql/clock.sql");
pub(crate) const PAGE: &str = include_str!("sql/page.sql");
pub(crate) const PAGE_BACK: &str = include_str!("sql/page_back.sql");
pub(crate) const ENTRY_ENDS: &str = include_str!("sql/entry_ends.sql");
pub(crate) const CHECK: &str = include_str!("sql/check.sql");
pub(crate) const LEDGER_ID: &str = include_str!("sql/ledger_id.sql");
pub(crate) const PROBE: &str = include_str!("sql/probe.sql");
pub(crate) const REPLAYED: &str = include_str!("sql/replayed.sql");
pub(crate) const GRANTS: &str = include_str!("sql/grants.sql");
pub(crate) const GRANTS_OPERATOR: &str = include_str!("sql/grants_operator.sql");
pub(crate) const MIGRATION_HOLDERS: &str = include_str!("sql/migration_holders.sql");
pub(crate) const MIGRATION_LOCK: &str = include_str!("sql/migration_lock.sql");
pub(crate) const MIGRATION_TABLE: &str = include_str!("sql/migration_table.sql");
pub(crate) const MIGRATION_WAIT: &str = include_str!("sql/migration_wait.sql");
pub(crate) const MIGRATION_VERSION: &str = include_str!("sql/migration_version.sql");
pub(crate) const MIGRATION_INSERT: &str = include_str!("sql/migration_insert.sql");

/// The text between the dollar quotes of a function.
pub(crate) fn body(function: &str) -> &str {
    function.split("$$").nth(1).unwrap_or_default()
}
