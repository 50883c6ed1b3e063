//! What the ledger says afterwards: tenures, refusals, and whether every line is there once.

use comfy_table::{Table, presets};
use ledger_core::{
    Basis, Evidence, FencedLedger, FencedLedgerExt, Generation, Holder, Json, OwnEvent, PageSize, RequestBook,
    RequestState, Timestamp, Verification,
};

use crate::{Result, request, store};

struct Tenure {
    holder: Holder,
    generation: Generation,
    from: Timestamp,
    to: Option<Timestamp>,
    end: String,
    lines: usize,
}

/// `payments` and `questions`: how often the bank was asked to pay, and how often what became of that.
pub(crate) async fn print(
    ledger: &dyn FencedLedger,
    lines: &[Json],
    (payments, questions): (usize, usize),
) -> Result<()> {
    let (tenures, stored) = read(ledger).await?;
    println!("\nThe tenures, as the log tells them:");
    println!("{}", tenure_table(&tenures));
    println!("The refusals, as the store recorded them:");
    println!("{}", rejection_table(ledger).await?);

    println!("The request to the bank, as log and refusals tell it:");
    println!("{}", request_table(ledger).await?);

    let partition = store::partition()?;
    match ledger.verify(&partition, None).await? {
        Verification::Clean { entries, events, .. } => {
            println!("verify: clean. {entries} entries with {events} events were recomputed, and the chain holds.");
        }
        Verification::Broken { position, fault } => return Err(format!("verify: position {position}: {fault}").into()),
    }
    if stored != lines {
        return Err(format!(
            "the ledger has {} lines and the input {}, or in another order",
            stored.len(),
            lines.len()
        )
        .into());
    }
    if payments != 1 {
        return Err(format!("the bank was asked to pay {payments} times").into());
    }
    println!("The bank got one request to pay; how often it was asked what became of it: {questions}.");
    println!("Every one of the {} input lines is in the ledger exactly once, in its order.", lines.len());
    Ok(())
}

/// Folds the log into the tenures and the lines.
async fn read(ledger: &dyn FencedLedger) -> Result<(Vec<Tenure>, Vec<Json>)> {
    let (partition, start) = (store::partition()?, Default::default());
    let folded = ledger.fold(&partition, start, |(mut tenures, mut lines): (Vec<Tenure>, Vec<Json>), event| {
        let at = event.entry.recorded_at;
        match OwnEvent::read(&event.kind, &event.payload) {
            Ok(Some(OwnEvent::Claimed(succession))) => {
                if let (Some(before), Basis::Expired { expires_at, .. }) = (tenures.last_mut(), &succession.basis) {
                    before.to = Some(*expires_at);
                    before.end = "its lease ran out".to_owned();
                }
                tenures.push(Tenure {
                    holder: succession.holder,
                    generation: succession.generation,
                    from: at,
                    to: None,
                    end: "goes on".to_owned(),
                    lines: 0,
                });
            }
            Ok(Some(own)) => {
                if let Some(tenure) = tenures.last_mut() {
                    tenure.to = Some(at);
                    tenure.end = own.kind().trim_start_matches('$').to_owned();
                }
            }
            _ if event.kind.as_str() == store::LINE => {
                if let Some(tenure) = tenures.last_mut() {
                    tenure.lines += 1;
                }
                lines.push(event.payload);
            }
            // The request's.
            _ => {}
        }
        (tenures, lines)
    });
    Ok(folded.await?)
}

fn tenure_table(tenures: &[Tenure]) -> Table {
    let mut table = new_table(["generation", "holder", "from", "to", "how it ended", "lines"]);
    for tenure in tenures {
        let to = tenure.to.map_or_else(|| "-".to_owned(), |to| to.to_string());
        table.add_row([
            tenure.generation.to_string(),
            tenure.holder.to_string(),
            tenure.from.to_string(),
            to,
            tenure.end.clone(),
            tenure.lines.to_string(),
        ]);
    }
    table
}

async fn rejection_table(ledger: &dyn FencedLedger) -> Result<Table> {
    let mut table = new_table(["refused", "why", "presented", "true", "first", "count"]);
    let page = ledger.rejections(Some(&store::partition()?), None, PageSize::MAX).await?;
    for record in page.records {
        let Some(refused) = record.refused else { continue };
        let presented = refused.generation.map_or_else(|| "-".to_owned(), |generation| generation.to_string());
        let current = record.slot.generation.map_or_else(|| "-".to_owned(), |generation| generation.to_string());
        table.add_row([
            refused.operation.to_string(),
            refused.reason.to_string(),
            format!("`{}`, generation {presented}", refused.holder),
            format!("generation {current}"),
            record.first_at.to_string(),
            record.count.to_string(),
        ]);
    }
    Ok(table)
}

async fn request_table(ledger: &dyn FencedLedger) -> Result<Table> {
    let (partition, key) = (store::partition()?, request::key()?);
    let request = ledger.look_up(&partition, &key).await?.ok_or("the request is not in the log")?;
    let mut table = new_table(["what", "by", "when", "evidence"]);
    let by = |entry: &ledger_core::Entry| format!("`{}`, generation {}", entry.holder, entry.generation);
    let (made, settled) = (&request.made, &request.changed);
    table.add_row(["recorded, then sent".to_owned(), by(made), made.recorded_at.to_string(), format!("key `{key}`")]);
    let RequestState::Succeeded { evidence } = &request.state else {
        return Err(format!("the request is not settled: {:?}", request.state).into());
    };
    let told = |evidence: &Evidence| format!("{}, `{}`", evidence.source, evidence.reference);
    table.add_row(["settled: succeeded".to_owned(), by(settled), settled.recorded_at.to_string(), told(evidence)]);
    for late in ledger.late_answers(&partition, Generation::FIRST).await? {
        let generation = late.generation.map_or_else(|| "-".to_owned(), |generation| generation.to_string());
        let said = match &late.said {
            RequestState::Succeeded { evidence } | RequestState::Failed { evidence } => told(evidence),
            other => format!("{other:?}"),
        };
        table.add_row([
            format!("late answer, refused: {}", late.reason),
            format!("`{}`, generation {generation}", late.holder),
            late.first_at.to_string(),
            said,
        ]);
    }
    Ok(table)
}

fn new_table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(header);
    table
}
