//! The schema: its name, its SQL and its version. It is installed and brought on by `migrate.rs` (S3).

use ledger_core::{Invalid, LedgerError, Result};

use crate::statement::{GRANTS, GRANTS_OPERATOR, MIGRATION_INSERT, MIGRATION_LOCK, ROUTINES, VERSIONS};

/// The version of the schema that this library writes and reads.
pub const SCHEMA_VERSION: i32 = 4;

/// The schema in which one ledger lives.
///
/// Its name is the only text of a user's that ever becomes part of a statement, so it is held to lower-case letters,
/// digits and underscores. Partitions, holders and kinds are always data.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Schema(String);

impl Schema {
    /// The name where none is given.
    pub const DEFAULT: &'static str = "fenced_ledger";

    /// Checks a name: 1 to 63 lower-case letters, digits and underscores, not starting with a digit or with `pg_`.
    ///
    /// # Errors
    ///
    /// [`Invalid::Unusable`].
    pub fn new(name: impl Into<String>) -> Result<Self, Invalid> {
        let name = name.into();
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        let problem = if name.is_empty() || name.len() > 63 {
            "it must have 1 to 63 bytes"
        } else if !name.bytes().all(plain) {
            "it may have lower-case letters, digits and underscores only"
        } else if name.starts_with(|first: char| first.is_ascii_digit()) || name.starts_with("pg_") {
            "it must not start with a digit or with `pg_`"
        } else {
            return Ok(Self(name));
        };
        Err(Invalid::Unusable { what: "schema name", problem: format!("{name:?}: {problem}") })
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// The SQL that installs the schema, for those who run DDL themselves: one transaction, to be run once, as the role
    /// that is to own the tables. It is just what [`migrate`](Self::migrate) runs where nothing is installed.
    ///
    /// It waits for nothing but another migration of the schema, and for that without a bound: run `set lock_timeout =
    /// '30s'` before it to set one. It does not bring an older version to this one.
    pub fn sql(&self) -> String {
        let mut script = format!(
            "begin isolation level read committed;\n{};\n\n",
            self.fill(MIGRATION_LOCK).trim_end().replace("$1", &format!("'{}'", self.0))
        );
        for (version, step) in (1..).zip(VERSIONS) {
            script += &self.step(step);
            let insert = self.fill(MIGRATION_INSERT);
            let insert = insert.trim_end().replace("$1", &i32::to_string(&version)).replace("$2", "'sql'");
            script += &format!("{insert};\n");
        }
        script + &self.routines() + "commit;\n"
    }

    /// The SQL that grants a role what a writer and reader needs, and no more (S5).
    pub fn grants(&self, role: &str) -> String {
        self.fill(GRANTS).replace("the_role", &quoted(role))
    }

    /// The SQL that lets a role end tenures (C3) and advance partitions (I4), beside the grants of a writer.
    pub fn operator_grants(&self, role: &str) -> String {
        self.fill(GRANTS_OPERATOR).replace("the_role", &quoted(role))
    }

    pub(crate) fn step(&self, parts: &[&str]) -> String {
        parts.iter().map(|part| self.fill(part) + "\n").collect()
    }

    pub(crate) fn routines(&self) -> String {
        let replacing =
            |text: String, what| text.replace(&format!("create {what} "), &format!("create or replace {what} "));
        replacing(replacing(self.step(ROUTINES), "function"), "procedure")
    }

    /// A statement with this schema's name in it.
    pub(crate) fn fill(&self, sql: &str) -> String {
        // Quoted, as a name may be a key word. The chain's domain string is written with a hyphen and stays.
        sql.replace(Self::DEFAULT, &format!("\"{}\"", self.0))
    }
}

impl Default for Schema {
    fn default() -> Self {
        Self(Self::DEFAULT.to_owned())
    }
}

impl std::fmt::Display for Schema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

fn quoted(identifier: &str) -> String {
    format!("\"{}\"", identifier.replace('"', "\"\""))
}

/// The error of a schema that is of another version.
pub(crate) fn check_version(schema: &Schema, found: Option<i32>) -> Result<()> {
    let problem = match found {
        Some(SCHEMA_VERSION) => return Ok(()),
        Some(version) if version > SCHEMA_VERSION => {
            format!("`{schema}` is at version {version}, which is newer than this library's {SCHEMA_VERSION}")
        }
        found => {
            let found = found.unwrap_or(0);
            format!("`{schema}` is at version {found} and this library needs {SCHEMA_VERSION}: run `Schema::migrate`")
        }
    };
    Err(LedgerError::Invalid(Invalid::Unusable { what: "schema", problem }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_name_is_a_plain_identifier() {
        for name in ["fenced_ledger", "a", "_x1", "user", &"a".repeat(63)] {
            assert_eq!(Schema::new(name).expect(name).name(), name);
        }
        for name in ["", "A", "a-b", "a.b", "1a", "a\"b", "a'b", "pg_x", "é", "a;b", &"a".repeat(64)] {
            assert!(Schema::new(name).is_err(), "{name}");
        }
    }

    #[test]
    fn the_name_stands_in_every_statement_and_nowhere_else() {
        let sql = Schema::new("other").expect("a name").sql();
        assert!(!sql.contains("fenced_ledger") && sql.contains("\"other\".append("));
        assert!(sql.contains("'fenced-ledger/chain/1'"), "the chain does not depend on the schema's name");
        assert!(sql.starts_with("begin isolation level read committed;") && sql.ends_with("commit;\n"));
        assert!(!sql.contains("$1"), "nothing is left to bind");
    }

    #[test]
    fn a_role_is_quoted() {
        assert!(Schema::default().grants("a\"b").contains("to \"a\"\"b\";"));
    }
}
