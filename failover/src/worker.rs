//! One writer, as a user runs it: a keeper for each partition in turn, appends, and `fate` for what is not known.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ledger_core::keeper::{End, Keeper, Loss, State, Terms, Wait, WriteError, Writer};
use ledger_core::{
    Append, AppendId, Appended, Fate, FencedLedger, Generation, Holder, Lease, LedgerError, NewEvent, PartitionId, Ttl,
};

use crate::Result;
use crate::journal::{Journal, Word};
use crate::place::Place;

/// How many appends a writer makes before it lets others have the partition.
const TURN: usize = 60;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: Place,
    /// The folder of the journals; the writer's is `HOLDER.journal`.
    #[arg(long)]
    journals: PathBuf,
    /// The name of the writer.
    #[arg(long)]
    holder: String,
    /// How many partitions the writers share.
    #[arg(long, default_value_t = 4)]
    partitions: usize,
    /// The TTL of a lease, in milliseconds.
    #[arg(long, default_value_t = 3_000)]
    ttl: i64,
    /// How many seconds it writes at most. It ends before that once there is a file `stop` in the folder of the journals.
    #[arg(long)]
    seconds: u64,
}

/// An append of which nobody knows what became.
type Open = (PartitionId, Generation, AppendId);

pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    let mut journal = Journal::create(&arguments.journals.join(format!("{}.journal", arguments.holder)))?;
    let stop = arguments.journals.join("stop");
    let end = Instant::now() + Duration::from_secs(arguments.seconds);
    let ledger: Arc<dyn FencedLedger> = Arc::new(arguments.place.open().await?);
    let (holder, terms) = (Holder::new(&arguments.holder)?, Terms::new(Ttl::from_millis(arguments.ttl)?));
    let mut open: Vec<Open> = Vec::new();
    let mut turn: usize = arguments.holder.bytes().map(usize::from).sum();
    while Instant::now() < end && !stop.exists() {
        turn += 1;
        let partition = PartitionId::new(format!("p{}", turn % arguments.partitions))?;
        let keeper = Keeper::new(ledger.clone(), partition, holder.clone(), terms)?;
        // Another may hold it: then it is the next one's turn.
        if let Ok((writer, driver)) = keeper.claim(Wait::AtMost(Duration::from_millis(200))).await {
            let driver = tokio::spawn(driver);
            let released = write_for_a_while(&writer, &mut journal, &mut open).await?;
            let lease = writer.lease();
            drop(writer);
            driver.abort();
            if released {
                write_late(&*ledger, &lease, &mut journal, &mut open).await?;
            }
        } else {
            // A cluster without a primary refuses at once.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        settle(&*ledger, &mut journal, &mut open).await?;
    }
    Ok(())
}

/// Says whether the partition was released at the end.
async fn write_for_a_while(writer: &Writer, journal: &mut Journal, open: &mut Vec<Open>) -> Result<bool> {
    let lease = writer.lease();
    let (partition, generation) = (&lease.partition, lease.generation);
    journal.note(partition, generation, &Word::Granted(lease.acquisition))?;
    for _ in 0..TURN {
        let id = AppendId::mint();
        let append = Append::with_id(id, [NewEvent::of("entry", &id)?, NewEvent::of("entry", &id)?])?;
        let word = match writer.append(&append).await {
            Ok(appended) => word(id, Ok(appended))?,
            Err(WriteError::Ledger(error)) => word(id, Err(error))?,
            // Nothing was sent.
            Err(WriteError::Ended(_) | WriteError::Draining) => break,
        };
        journal.note(partition, generation, &word)?;
        if word == Word::Unknown(id) {
            open.push((partition.clone(), generation, id));
            break;
        }
        // The writers share a machine with their servers: none is to be slow for want of a processor.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    if let State::Ended(end) = writer.state()
        && let End::Lost(loss) = &*end
    {
        journal.note(partition, generation, &Word::Lost(reason(loss)))?;
        return Ok(false);
    }
    match tokio::time::timeout(Duration::from_secs(1), writer.release()).await {
        // Lost at the last moment, or the release is not answered: the lease runs out by itself.
        Err(_) => Ok(false),
        Ok(Ok(_)) => Ok(true),
        Ok(Err(error)) => {
            let why = error.rejection().map_or_else(|| error.to_string(), |rejection| rejection.reason.to_string());
            journal.note(partition, generation, &Word::Lost(format!("{why} at the release")))?;
            Ok(false)
        }
    }
}

/// An append as of one who wakes up late: it is to be refused, also across a failover.
async fn write_late(
    ledger: &dyn FencedLedger,
    lease: &Lease,
    journal: &mut Journal,
    open: &mut Vec<Open>,
) -> Result<()> {
    let id = AppendId::mint();
    let append = Append::with_id(id, [NewEvent::of("entry", &id)?, NewEvent::of("entry", &id)?])?;
    let word = word(id, ledger.append(lease, &append).await)?;
    if word == Word::Unknown(id) {
        open.push((lease.partition.clone(), lease.generation, id));
    }
    journal.note(&lease.partition, lease.generation, &word)
}

/// What an answer to an append says.
fn word(id: AppendId, answer: std::result::Result<Appended, LedgerError>) -> Result<Word> {
    Ok(match answer {
        Ok(appended) => Word::Stored(id, appended.entry.first, appended.entry.chain),
        Err(LedgerError::Rejected(rejection)) => Word::Refused(id, rejection.reason.to_string()),
        Err(LedgerError::Unknown(_)) => Word::Unknown(id),
        Err(LedgerError::NotWritten(_)) => Word::NotWritten(id),
        Err(other) => return Err(other.into()),
    })
}

/// Why trust was lost, in few words.
fn reason(loss: &Loss) -> String {
    match loss {
        Loss::Refused(rejection) => rejection.reason.to_string(),
        other => other.as_str().to_owned(),
    }
}

/// Asks what became of what is not known. What can not be told yet is asked again later.
async fn settle(ledger: &dyn FencedLedger, journal: &mut Journal, open: &mut Vec<Open>) -> Result<()> {
    for (partition, generation, id) in std::mem::take(open) {
        match ledger.fate(&partition, id, generation).await {
            Ok(Fate::Recorded(_)) => journal.note(&partition, generation, &Word::Settled(id, true))?,
            Ok(Fate::Never) => journal.note(&partition, generation, &Word::Settled(id, false))?,
            Ok(Fate::Undecided) | Err(_) => open.push((partition, generation, id)),
        }
    }
    Ok(())
}
