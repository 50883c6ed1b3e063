//! What is read: pages, walked as far as they lead, against the model's whole.

use ledger_core::{
    AcquisitionId, Event, FencedLedger, Generation, LedgerError, Page, PageSize, PartitionId, Position,
    RejectionRecord, Result, Revision, Standing,
};
use uuid::Uuid;

use super::Model;
use super::operation::{Size, Way};
use super::world::{kind, told};
use crate::HarnessError;

/// A read looks at so many pages. A long log in small ones would take long.
const PAGES: usize = 8;

/// Reads a log in pages. Each keeps its bounds and names the head; together they are the model's log, as far as they
/// lead.
pub(super) async fn read(
    (model, ledger): (&Model, &dyn FencedLedger),
    name: &PartitionId,
    from: u8,
    way: Way,
    size: Size,
) -> Result<[String; 2], HarnessError> {
    let from = Position::new(i64::from(from).max(1))?;
    let size = match size {
        Size::Max => PageSize::MAX,
        Size::Items(items) => PageSize::new(u32::from(items.max(1)))?,
        Size::Bytes(bytes) => PageSize::MAX.with_bytes(u32::from(bytes.max(1)))?,
    };
    let head = model.standing(name).map(|standing| (standing.head(), standing.lease.generation));
    let mut walk = Walk { name, way, size, head, events: Vec::new(), wrong: None };
    let seen = walk.over(ledger, from).await;
    let mut expected = expected(model, name, from, way);
    // Where the walk ended before the log did, that is all that can be compared.
    if let (Ok(true), Ok(expected)) = (&seen, &mut expected) {
        expected.truncate(walk.events.len());
    }
    let seen = match (seen, walk.wrong) {
        (_, Some(wrong)) => wrong,
        (Ok(_), None) => told(&Result::Ok(walk.events)),
        (Err(error), None) => told(&Result::<Vec<Event>>::Err(error)),
    };
    Ok([told(&expected), seen])
}

struct Walk<'a> {
    name: &'a PartitionId,
    way: Way,
    size: PageSize,
    head: Option<(Position, Generation)>,
    events: Vec<Event>,
    wrong: Option<String>,
}

impl Walk<'_> {
    /// Whether there is more than was read.
    async fn over(&mut self, ledger: &dyn FencedLedger, from: Position) -> Result<bool> {
        let mut next = Some(from).filter(|_| !matches!(self.way, Way::BackwardFromTheHead));
        for _ in 0..PAGES {
            let page = match (self.way, next) {
                (Way::Backward | Way::BackwardFromTheHead, from) => {
                    ledger.read_back(self.name, from, self.size).await?
                }
                (Way::OfKind(of), from) => {
                    let from = from.unwrap_or(Position::FIRST);
                    ledger.read_kind(self.name, &kind(of), from, self.size).await?
                }
                (Way::Forward, from) => ledger.read(self.name, from.unwrap_or(Position::FIRST), self.size).await?,
            };
            self.check(&page);
            next = page.next;
            self.events.extend(page.events);
            if next.is_none() || self.wrong.is_some() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn check(&mut self, page: &Page) {
        let (count, bytes) = (page.events.len(), page.events.iter().map(Event::bytes).sum::<usize>());
        let within = |actual: usize, limit: u32| actual <= usize::try_from(limit).unwrap_or(usize::MAX);
        let fits = within(count, self.size.get()) && (count <= 1 || within(bytes, self.size.bytes()));
        let leads = page.next.is_none() || count > 0 || matches!(self.way, Way::OfKind(_));
        if !fits || !leads || page.head != self.head {
            let (head, size) = (self.head, self.size);
            self.wrong =
                Some(format!("{count} events of {bytes} bytes in a page of {size:?} up to {head:?}: {page:?}"));
        }
    }
}

fn expected(model: &Model, name: &PartitionId, from: Position, way: Way) -> Result<Vec<Event>> {
    let head = model.standing(name).map(Standing::head);
    match way {
        Way::Forward => model.read(name, from),
        Way::OfKind(of) => {
            let mut events = model.read(name, from)?;
            events.retain(|event| event.kind == kind(of));
            Ok(events)
        }
        Way::Backward if Some(from) > head => Err(LedgerError::AheadOfLog { from, head }),
        Way::Backward | Way::BackwardFromTheHead => {
            let mut events = model.read(name, Position::FIRST)?;
            events.retain(|event| matches!(way, Way::BackwardFromTheHead) || event.position <= from);
            events.reverse();
            Ok(events)
        }
    }
}

/// Lists partitions in pages.
pub(super) async fn partitions(
    (model, ledger): (&Model, &dyn FencedLedger),
    after: Option<PartitionId>,
    limit: u8,
) -> Result<[String; 2], HarnessError> {
    let limit = PageSize::new(u32::from(limit.max(1)))?;
    let mut expected = model.partitions(after.as_ref());
    let (mut seen, mut next) = (Vec::new(), after);
    for nth in 1.. {
        let page = ledger.partitions(next.as_ref(), limit).await?;
        seen.extend(page.partitions);
        next = page.next;
        if next.is_none() {
            break;
        }
        if nth == PAGES {
            expected.truncate(seen.len());
            break;
        }
    }
    Ok([format!("{expected:?}"), format!("{seen:?}")])
}

/// The keys of records, in their order. Counts may lag by a second (E3), and with them the facts of the last refusal.
pub(super) fn keys(records: &[RejectionRecord]) -> String {
    let key = |record: &RejectionRecord| {
        let of = record.refused.as_ref();
        let of = of.map(|of| {
            format!("{:?} {:?} {:?} {:?} {:?}", of.operation, of.reason, of.holder, of.generation, of.remark)
        });
        format!("{:?} {:?} {of:?}", record.slot, record.partition)
    };
    records.iter().map(key).collect::<Vec<_>>().join("; ")
}

/// Records with their counts and times. Of repeats that several handles count, which one is the last is left open (E3).
pub(super) fn counted(mut records: Vec<RejectionRecord>, is_mixed: bool) -> String {
    let nobody = AcquisitionId::from_uuid(Uuid::max()).expect("not nil");
    for refused in records.iter_mut().filter_map(|record| record.refused.as_mut()).filter(|_| is_mixed) {
        (refused.acquisition, refused.append, refused.current) = (nobody, None, None);
        refused.revision = Revision::default();
    }
    format!("{records:?}")
}
