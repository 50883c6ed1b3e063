//! What the ledger says afterwards: tenures, refusals, and whether every line is there once.

use comfy_table::{Table, presets};
use ledger_core::{
    Basis, FencedLedger, FencedLedgerExt, Generation, Holder, Json, OwnEvent, PageSize, Timestamp, Verification,
};

use crate::{Result, store};

struct Tenure {
    holder: Holder,
    generation: Generation,
    from: Timestamp,
    to: Option<Timestamp>,
    end: String,
    lines: usize,
}

pub(crate) async fn print(ledger: &dyn FencedLedger, lines: &[Json]) -> Result<()> {
    let (tenures, stored) = read(ledger).await?;
    println!("\nThe tenures, as the log tells them:");
    println!("{}", tenure_table(&tenures));
    println!("The refusals, as the store recorded them:");
    println!("{}", rejection_table(ledger).await?);

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
            _ => {
                if let Some(tenure) = tenures.last_mut() {
                    tenure.lines += 1;
                }
                lines.push(event.payload);
            }
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

fn new_table<const N: usize>(header: [&str; N]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(header);
    table
}
