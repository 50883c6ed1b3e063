//! One call of a function of the schema, in each of the four ways in which it can be sent.
//!
//! | connection | read | write | round trips |
//! |---|---|---|---|
//! | own | `select * from f(…)`, prepared once | the same | 1 |
//! | of a pool that others use | the same | `call f_and_commit(…)`, prepared once | 1, and sqlx's own when the connection is released |
//! | behind a transaction pooler, own or of such a pool | `select * from f(…)` as one simple query, its values written into the text | `call f_and_commit(…)` as one simple query | as above |
//!
//! So each write over a session that others use too ends in a COMMIT of its own: inside a transaction that somebody has
//! left open it fails, where the function would be answered and then rolled back. Over the library's own connections to a
//! transaction pooler the function would be safe as well: only its own `begin` would open a transaction, and a pooler
//! lends no session that is inside one. They go the same way as a given pool's, because the sessions are others' too and
//! what somebody has set in one stays, and because one way is simpler than two.
//!
//! Inside the caller's own transaction (`append_in`) a write is the function, whose commit is the caller's.
//!
//! Each reads the answer up to the server's ready message. A row may come before an error: the one that the commit meets.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::{Arc, PoisonError, RwLock};

use futures_util::stream::BoxStream;
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgArgumentBuffer, PgArguments, PgHasArrayType, PgRow, PgTypeInfo};
use sqlx::{AssertSqlSafe, Encode, PgConnection, Postgres, Type};

use crate::Schema;

/// A function of the schema.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: &'static str,
    /// Whether it may write: then it takes a bound for its waits as last argument, and has a twin that commits, with
    /// so many OUT parameters.
    pub(crate) writes: Option<usize>,
    pub(crate) arguments: usize,
}

/// The columns of the type `answer`.
const ANSWER: usize = 25;

pub(crate) const APPEND: Function = Function { name: "append", writes: Some(ANSWER), arguments: 14 };
/// Without a twin: groups are sent on connections of the library's own alone.
pub(crate) const APPEND_GROUP: Function = Function { name: "append_group", writes: Some(0), arguments: 14 };
pub(crate) const CLAIM: Function = Function { name: "claim", writes: Some(ANSWER), arguments: 8 };
pub(crate) const RENEW: Function = Function { name: "renew", writes: Some(ANSWER), arguments: 7 };
pub(crate) const RELEASE: Function = Function { name: "release", writes: Some(ANSWER), arguments: 6 };
pub(crate) const END_TENURE: Function = Function { name: "end_tenure", writes: Some(ANSWER), arguments: 5 };
pub(crate) const ADVANCE: Function = Function { name: "advance", writes: Some(ANSWER), arguments: 6 };
pub(crate) const RECORD_REJECTION: Function = Function { name: "record_rejection", writes: Some(1), arguments: 15 };
pub(crate) const COUNT_REJECTIONS: Function = Function { name: "count_rejections", writes: Some(1), arguments: 15 };
pub(crate) const LOOK: Function = Function { name: "look", writes: None, arguments: 2 };
pub(crate) const OBSERVE: Function = Function { name: "observe", writes: None, arguments: 1 };
pub(crate) const FATE: Function = Function { name: "fate", writes: None, arguments: 3 };
pub(crate) const PARTITIONS: Function = Function { name: "partitions", writes: None, arguments: 2 };
pub(crate) const REJECTIONS: Function = Function { name: "rejections", writes: None, arguments: 4 };

/// A value that is sent.
#[derive(Clone, Debug)]
pub(crate) enum Value<'a> {
    Text(Option<&'a str>),
    Texts(Vec<&'a str>),
    Big(Option<i64>),
    Bigs(Vec<Option<i64>>),
    Small(Option<i32>),
    Smalls(Vec<i32>),
    Uuid(Option<uuid::Uuid>),
    Uuids(Vec<uuid::Uuid>),
    Bytes(&'a [u8]),
    Byteses(Vec<&'a [u8]>),
    Bool(bool),
}

/// A function with its arguments; of one that writes, without the last, which depends on the connection.
#[derive(Debug)]
pub(crate) struct Call<'a> {
    pub(crate) function: &'static Function,
    pub(crate) values: Vec<Value<'a>>,
}

/// How a call is sent: prepared or as a simple query; and of one that writes, the function or the procedure that commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Way {
    Function,
    Procedure,
    SimpleFunction,
    SimpleProcedure,
}

impl Way {
    pub(crate) fn new(simple: bool, commits: bool) -> Self {
        match (simple, commits) {
            (false, false) => Self::Function,
            (false, true) => Self::Procedure,
            (true, false) => Self::SimpleFunction,
            (true, true) => Self::SimpleProcedure,
        }
    }

    fn is_simple(self) -> bool {
        matches!(self, Self::SimpleFunction | Self::SimpleProcedure)
    }

    fn commits(self) -> bool {
        matches!(self, Self::Procedure | Self::SimpleProcedure)
    }
}

/// The texts of the prepared statements, each written once.
#[derive(Debug)]
pub(crate) struct Statements {
    schema: Schema,
    texts: RwLock<HashMap<(&'static str, Way), Arc<str>>>,
}

impl Statements {
    pub(crate) fn new(schema: Schema) -> Self {
        Self { schema, texts: RwLock::default() }
    }

    fn prepared(&self, function: &Function, way: Way) -> Arc<str> {
        self.once((function.name, way), || function.prepared(&self.schema, way))
    }

    /// A statement with the schema's name in it.
    fn filled(&self, sql: &'static str) -> Arc<str> {
        self.once((sql, Way::Function), || self.schema.fill(sql))
    }

    fn once(&self, key: (&'static str, Way), write: impl FnOnce() -> String) -> Arc<str> {
        if let Some(text) = self.texts.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return text.clone();
        }
        let text: Arc<str> = write().into();
        self.texts.write().unwrap_or_else(PoisonError::into_inner).insert(key, text.clone());
        text
    }
}

impl Call<'_> {
    /// Sends it and reads the whole answer. `wait` bounds its waits for locks, where the session does not.
    pub(crate) async fn run(
        &self,
        connection: &mut PgConnection,
        statements: &Statements,
        way: Way,
        wait: Option<i32>,
    ) -> sqlx::Result<Vec<PgRow>> {
        let wait = self.function.writes.map(|_| Value::Small(wait));
        let values = self.values.iter().chain(wait.as_ref());
        if way.is_simple() {
            let text = self.function.text(&statements.schema, way, values, |text, value| value.write(text));
            return sqlx::raw_sql(AssertSqlSafe(text)).fetch_all(connection).await;
        }
        let text = statements.prepared(self.function, way);
        let mut arguments = PgArguments::default();
        for value in values {
            value.bind(&mut arguments).map_err(sqlx::Error::Encode)?;
        }
        sqlx::query_with(AssertSqlSafe(text), arguments).fetch_all(connection).await
    }
}

/// A statement with its values, of the reads whose rows are not held all at once.
#[derive(Debug)]
pub(crate) struct Statement<'a> {
    pub(crate) sql: &'static str,
    pub(crate) values: Vec<Value<'a>>,
}

impl Statement<'_> {
    /// Sends it; its rows come as they are asked for.
    pub(crate) fn rows<'c>(
        &self,
        connection: &'c mut PgConnection,
        statements: &Statements,
        way: Way,
    ) -> sqlx::Result<BoxStream<'c, sqlx::Result<PgRow>>> {
        if way.is_simple() {
            let mut text = statements.schema.fill(self.sql);
            for (nth, value) in (1..).zip(&self.values) {
                let mut literal = String::new();
                value.write(&mut literal);
                text = text.replace(&format!("${nth}"), &literal);
            }
            return Ok(sqlx::raw_sql(AssertSqlSafe(text)).fetch(connection));
        }
        let mut arguments = PgArguments::default();
        for value in &self.values {
            value.bind(&mut arguments).map_err(sqlx::Error::Encode)?;
        }
        let text = statements.filled(self.sql);
        Ok(sqlx::query_with(AssertSqlSafe(text), arguments).fetch(connection))
    }
}

impl Function {
    fn prepared(&self, schema: &Schema, way: Way) -> String {
        self.text(schema, way, 1..=self.arguments, |text, nth| {
            let _ = write!(text, "${nth}");
        })
    }

    /// The statement, with each argument as it is written.
    fn text<T>(
        &self,
        schema: &Schema,
        way: Way,
        arguments: impl IntoIterator<Item = T>,
        write: impl Fn(&mut String, T),
    ) -> String {
        let mut text = if way.commits() {
            format!("call \"{}\".{}_and_commit(", schema.name(), self.name)
        } else {
            format!("select * from \"{}\".{}(", schema.name(), self.name)
        };
        for (nth, argument) in arguments.into_iter().enumerate() {
            if nth > 0 {
                text.push_str(", ");
            }
            write(&mut text, argument);
        }
        if way.commits() {
            text.extend(std::iter::repeat_n(", null", self.writes.unwrap_or_default()));
        }
        text + ")"
    }
}

impl Value<'_> {
    fn bind(&self, arguments: &mut PgArguments) -> Result<(), BoxDynError> {
        use sqlx::Arguments as _;
        match self {
            Self::Text(text) => arguments.add(*text),
            Self::Texts(texts) => arguments.add(texts.as_slice()),
            Self::Big(number) => arguments.add(*number),
            Self::Bigs(numbers) => arguments.add(numbers.as_slice()),
            Self::Small(number) => arguments.add(*number),
            Self::Smalls(numbers) => arguments.add(numbers.as_slice()),
            Self::Uuid(uuid) => arguments.add(uuid.map(UuidValue)),
            Self::Uuids(uuids) => arguments.add(uuids.iter().copied().map(UuidValue).collect::<Vec<_>>()),
            Self::Bytes(bytes) => arguments.add(*bytes),
            Self::Byteses(values) => arguments.add(values.as_slice()),
            Self::Bool(value) => arguments.add(*value),
        }
    }

    /// Writes it as a literal. Numbers, digits of UUIDs and hexadecimal digits alone: no session setting reads them
    /// otherwise, and no text of a caller's can end the literal that it is in.
    fn write(&self, text: &mut String) {
        let number = |text: &mut String, number: Option<i64>, of: &str| match number {
            Some(number) => drop(write!(text, "({number})::{of}")),
            None => drop(write!(text, "null::{of}")),
        };
        match self {
            Self::Text(None) => text.push_str("null::text"),
            Self::Text(Some(value)) => write_text(text, value),
            Self::Texts(values) => write_array(text, "text", values, |text, value| write_text(text, value)),
            Self::Big(value) => number(text, *value, "bigint"),
            Self::Bigs(values) => write_array(text, "bigint", values, |text, value| number(text, *value, "bigint")),
            Self::Small(value) => number(text, value.map(i64::from), "integer"),
            Self::Smalls(values) => {
                write_array(text, "integer", values, |text, value| number(text, Some(i64::from(*value)), "integer"));
            }
            Self::Uuid(None) => text.push_str("null::uuid"),
            Self::Uuid(Some(uuid)) => drop(write!(text, "'{uuid}'::uuid")),
            Self::Uuids(values) => {
                write_array(text, "uuid", values, |text, value| {
                    let _ = write!(text, "'{value}'::uuid");
                });
            }
            Self::Bytes(bytes) => write_bytes(text, bytes),
            Self::Byteses(values) => write_array(text, "bytea", values, |text, value| write_bytes(text, value)),
            Self::Bool(value) => text.push_str(if *value { "true" } else { "false" }),
        }
    }
}

fn write_array<T>(text: &mut String, of: &str, values: &[T], write: impl Fn(&mut String, &T)) {
    text.push_str("array[");
    for (nth, value) in values.iter().enumerate() {
        if nth > 0 {
            text.push(',');
        }
        write(text, value);
    }
    let _ = write!(text, "]::{of}[]");
}

fn write_text(text: &mut String, value: &str) {
    text.push_str("pg_catalog.convert_from(");
    write_bytes(text, value.as_bytes());
    text.push_str(",'UTF8')");
}

fn write_bytes(text: &mut String, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    text.reserve(bytes.len() * 2 + 40);
    text.push_str("pg_catalog.decode('");
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text.push_str("','hex')");
}

/// A UUID for the wire. sqlx's own support would bring its SQLite driver into the lock file, which clashes with
/// ledger-sqlite's.
struct UuidValue(uuid::Uuid);

impl Type<Postgres> for UuidValue {
    fn type_info() -> PgTypeInfo {
        // Fixed in PostgreSQL's catalogue.
        PgTypeInfo::with_oid(Oid(2950))
    }
}

impl PgHasArrayType for UuidValue {
    fn array_type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(Oid(2951))
    }
}

impl Encode<'_, Postgres> for UuidValue {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        buffer.extend_from_slice(self.0.as_bytes());
        Ok(IsNull::No)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_leaves_its_literal() {
        let values = [
            Value::Text(Some("it's $$ \\ é")),
            Value::Big(Some(i64::MIN)),
            Value::Small(None),
            Value::Texts(vec!["'", "\""]),
            Value::Bytes(b"\0'"),
        ];
        let text = FATE.text(&Schema::default(), Way::SimpleFunction, &values, |text, value| value.write(text));
        assert_eq!(
            text,
            "select * from \"fenced_ledger\".fate(\
             pg_catalog.convert_from(pg_catalog.decode('69742773202424205c20c3a9','hex'),'UTF8'), \
             (-9223372036854775808)::bigint, null::integer, \
             array[pg_catalog.convert_from(pg_catalog.decode('27','hex'),'UTF8'),\
             pg_catalog.convert_from(pg_catalog.decode('22','hex'),'UTF8')]::text[], \
             pg_catalog.decode('0027','hex'))"
        );
    }

    #[test]
    fn a_procedure_is_called_with_its_out_parameters() {
        let text = RECORD_REJECTION.prepared(&Schema::default(), Way::Procedure);
        assert!(
            text.starts_with("call \"fenced_ledger\".record_rejection_and_commit($1, ") && text.ends_with("$15, null)")
        );
        let values = [Value::Bool(true), Value::Small(Some(2))];
        let text =
            RECORD_REJECTION.text(&Schema::default(), Way::SimpleProcedure, &values, |text, value| value.write(text));
        assert_eq!(text, "call \"fenced_ledger\".record_rejection_and_commit(true, (2)::integer, null)");
    }
}
