//! One call for many appends: what is sent, and what is answered.

use ledger_core::{Append, Digest, Expected, LedgerError, Result};
use sqlx::Row;
use sqlx::postgres::PgRow;

use crate::append::Granted;
use crate::call::{self, Call, Value};
use crate::lanes::{Lane, Member};
use crate::retry::Runner;

/// Appends that travel together, those of a lane side by side; each with the number of its lane.
#[derive(Debug, Default)]
pub(crate) struct Group {
    pub(crate) lanes: Vec<Lane>,
    /// Of each lane a position that its log has reached, or 0.
    pub(crate) near: Vec<i64>,
    pub(crate) members: Vec<(usize, Member)>,
}

/// What the server decided: of each member, if it was granted; and the lanes whose partition another session holds.
#[derive(Debug)]
pub(crate) struct Decided {
    pub(crate) granted: Vec<Option<Granted>>,
    pub(crate) held: Vec<usize>,
}

/// Sends a group and reads what was decided.
pub(crate) async fn send(runner: &Runner, group: &Group) -> Result<Decided> {
    let contents: Vec<Digest> = group.members.iter().map(|(_, member)| member.append.content()).collect();
    let rows = runner.run_group(&call(group, &contents)).await?;
    let row = rows.first().ok_or_else(|| LedgerError::corrupt(None, None, "a group answered no row"))?;
    decided(row, group).map_err(|bad| LedgerError::corrupt(None, None, format!("a group's answer: {bad}")))
}

fn call<'a>(group: &'a Group, contents: &'a [Digest]) -> Call<'a> {
    let lanes = &group.lanes;
    let appends = || group.members.iter().map(|(_, member)| &member.append);
    let texts = |of: fn(&ledger_core::NewEvent) -> &str| {
        Value::Texts(appends().flat_map(|append| append.events().iter().map(of)).collect())
    };
    let expected = |append: &Append| match append.expected() {
        Expected::Any => None,
        Expected::Position(head) => Some(head.get()),
    };
    // What is counted here is far below the bounds of a group.
    let small = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
    let values = vec![
        Value::Texts(lanes.iter().map(|lane| lane.partition.as_str()).collect()),
        Value::Bigs(lanes.iter().map(|lane| Some(lane.generation.get())).collect()),
        Value::Uuids(lanes.iter().map(|lane| lane.acquisition.as_uuid()).collect()),
        Value::Texts(lanes.iter().map(|lane| lane.holder.as_str()).collect()),
        Value::Smalls(group.members.iter().map(|(slot, _)| small(slot + 1)).collect()),
        Value::Uuids(appends().map(|append| append.id().as_uuid()).collect()),
        Value::Bigs(appends().map(expected).collect()),
        Value::Byteses(contents.iter().map(|content| content.as_bytes().as_slice()).collect()),
        Value::Smalls(appends().map(|append| small(append.events().len())).collect()),
        texts(|event| event.kind.as_str()),
        texts(|event| event.payload.as_str()),
        texts(|event| event.metadata.as_str()),
        Value::Bigs(group.near.iter().copied().map(Some).collect()),
    ];
    Call { function: &call::APPEND_GROUP, values }
}

fn decided(row: &PgRow, group: &Group) -> Result<Decided, Box<dyn std::error::Error + Send + Sync>> {
    fn list<'r, T>(row: &'r PgRow, column: usize) -> sqlx::Result<Vec<T>>
    where
        Option<Vec<T>>: sqlx::Decode<'r, sqlx::Postgres> + sqlx::Type<sqlx::Postgres>,
    {
        Ok(row.try_get::<Option<Vec<T>>, _>(column)?.unwrap_or_default())
    }
    let lasts: Vec<Option<i64>> = list(row, 0)?;
    let times: Vec<Option<i64>> = list(row, 1)?;
    let revisions: Vec<Option<i64>> = list(row, 2)?;
    let behind: Vec<Option<bool>> = list(row, 3)?;
    let chains: Vec<Option<Vec<u8>>> = list(row, 4)?;
    let held: Vec<i64> = list(row, 5)?;
    let facts = lasts.into_iter().zip(times).zip(revisions).zip(behind).zip(chains);
    let mut granted = Vec::with_capacity(group.members.len());
    for ((((last, time), revision), behind), chain) in facts {
        let Some(last) = last else {
            granted.push(None);
            continue;
        };
        let (Some(time), Some(revision), Some(behind), Some(chain)) = (time, revision, behind, chain) else {
            return Err("a granted append has not all of its facts".into());
        };
        let chain = chain.try_into().map_err(|_| "a chain value has not 32 bytes")?;
        granted.push(Some(Granted { last, time, revision, behind, chain: Digest::new(chain) }));
    }
    // Where nothing was decided, there are none.
    if !granted.is_empty() && granted.len() != group.members.len() {
        return Err("it answers another number of appends".into());
    }
    granted.resize_with(group.members.len(), || None);
    Ok(Decided { granted, held: held.into_iter().filter_map(index).collect() })
}

/// The server counts from 1.
fn index(number: i64) -> Option<usize> {
    usize::try_from(number.checked_sub(1)?).ok()
}
