//! Handovers: what a successor finds, exactly as of its claim (H1 to H3).

use std::sync::Arc;

use futures_util::TryStreamExt;

use crate::request::records_since;
use crate::{
    AdvanceRecord, Entry, FencedLedger, FencedLedgerExt, Generation, LateAnswer, LedgerError, OpenRequests, Operation,
    OwnEvent, PartitionId, Position, Predecessor, Reason, RejectionRecord, Request, Result, Succession,
};

/// How a generation took a partition over.
///
/// Everything but [`afterwards`](Self::afterwards) is derived from the log up to the `$claimed` entry, whose chain value
/// seals it: whoever asks, and however late, gets the same (H1).
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Handover {
    /// The partition.
    pub partition: PartitionId,
    /// The previous holder with its generation, acquisition and last position, the basis for calling it ended, the new
    /// holder, generation and acquisition, and the time (C5).
    pub succession: Succession,
    /// The `$claimed` entry.
    pub claimed: Arc<Entry>,
    /// An operator's advances since the tenure before, in their order: what was found, and why (I4). Where there are any,
    /// the succession names the last of them as its previous.
    pub advances: Vec<(Arc<Entry>, AdvanceRecord)>,
    /// The requests that were open at the predecessor's last position, as they stood there, in the order in which they
    /// were made; those of earlier generations among them (H2).
    pub open: Vec<Request>,
    /// What came after the claim or outside of the log. It grows.
    pub afterwards: Afterwards,
}

/// What the rejection records say up to the moment of asking. Not part of the log, nor of its chain (E5, H3).
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct Afterwards {
    /// What the predecessor was refused since its tenure had ended, whichever generation was current then.
    pub rejections: Vec<RejectionRecord>,
    /// The late answers to the requests in [`Handover::open`], the predecessor's and those of holders before it (Q6).
    pub late: Vec<LateAnswer>,
}

/// Reads the log up to the claim.
pub(crate) async fn handover<L: FencedLedger + ?Sized>(
    ledger: &L,
    partition: &PartitionId,
    generation: Generation,
) -> Result<Option<Handover>> {
    let mut requests = OpenRequests::of(partition.clone());
    let mut tenure: Option<Arc<Entry>> = None;
    let mut advances = Vec::new();
    let mut events = ledger.events(partition, Position::FIRST);
    let claimed = loop {
        match events.try_next().await? {
            Some(event) if event.entry.generation == generation && event.kind.as_str() == OwnEvent::CLAIMED => {
                break event;
            }
            Some(event) if event.entry.generation < generation => {
                requests.apply(&event)?;
                match OwnEvent::read(&event.kind, &event.payload) {
                    Ok(Some(OwnEvent::Claimed(_))) => {
                        tenure = Some(event.entry);
                        advances.clear();
                    }
                    Ok(Some(OwnEvent::Advanced(record))) => advances.push((event.entry, record)),
                    _ => {}
                }
            }
            _ => return Ok(None),
        }
    };
    drop(events);
    let corrupt = |detail: &str| LedgerError::corrupt(Some(partition), Some(claimed.position), detail);
    let Ok(Some(OwnEvent::Claimed(succession))) = OwnEvent::read(&claimed.kind, &claimed.payload) else {
        return Err(corrupt("the `$claimed` event can not be read"));
    };
    let last = succession.previous.as_ref().map_or(0, |previous| previous.last_position.get());
    if last + 1 != claimed.position.get() || succession.generation != generation {
        return Err(corrupt("the `$claimed` event does not follow the position that it names"));
    }
    let open = requests.requests();
    // Nobody held the generation of an advance: who was refused since is the holder before it.
    let before = tenure
        .filter(|_| !advances.is_empty())
        .map(|entry| Predecessor::new(entry.holder.clone(), entry.generation, entry.acquisition, entry.last));
    let afterwards = afterwards(ledger, partition, before.as_ref().or(succession.previous.as_ref()), &open).await?;
    let partition = partition.clone();
    Ok(Some(Handover { partition, succession, claimed: claimed.entry, advances, open, afterwards }))
}

async fn afterwards<L: FencedLedger + ?Sized>(
    ledger: &L,
    partition: &PartitionId,
    previous: Option<&Predecessor>,
    open: &[Request],
) -> Result<Afterwards> {
    let mut afterwards = Afterwards::default();
    let Some(previous) = previous else { return Ok(afterwards) };
    let oldest = open.first().map_or(previous.generation, Request::generation);
    let mut records = records_since(ledger, partition, oldest.min(previous.generation));
    while let Some(record) = records.try_next().await? {
        if let Some(answer) = LateAnswer::of(&record)
            && open.iter().any(|request| request.key == answer.key)
        {
            afterwards.late.push(answer);
        }
        if is_of_ended_tenure(&record, previous) {
            afterwards.rejections.push(record);
        }
    }
    Ok(afterwards)
}

/// Whether a record is of the predecessor, after its tenure had ended. A claim presents what it observed, and no lease.
fn is_of_ended_tenure(record: &RejectionRecord, previous: &Predecessor) -> bool {
    let Some(refused) = &record.refused else { return false };
    let presented = refused.operation != Operation::Claim
        && refused.holder == previous.holder
        && refused.generation == Some(previous.generation);
    let ended = record.slot.generation > Some(previous.generation)
        || matches!(refused.reason, Reason::Released | Reason::Expired);
    presented && ended
}
