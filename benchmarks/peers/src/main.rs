//! Appends a second of other event stores, of plain INSERTs and of FencedLedger, on the same server or disk, in turn.
//!
//! None of the others judges by a holder: what they check, if anything, is that nobody has appended meanwhile.

mod contestant;
mod domain;

use std::time::{Duration, Instant};

use contestant::Contestant;
use futures_util::future::try_join_all;

type Error = Box<dyn std::error::Error + Send + Sync>;

const ROUNDS: usize = 5;
const TIME: Duration = Duration::from_millis(700);

#[tokio::main]
async fn main() -> Result<(), Error> {
    let server = test_postgres::Options::new(test_postgres::Wanted::Any).start()?;
    println!("PostgreSQL {}, its own settings, pools of 16\n", server.installation().version());
    let on_postgres = contestant::on_postgres(&server.url()).await?;
    for writers in [1, 64] {
        compare(&format!("PostgreSQL, {writers} writers on as many streams"), &on_postgres, writers).await?;
    }
    let folder = tempfile::tempdir_in(".")?;
    let on_sqlite = contestant::on_sqlite(folder.path()).await?;
    for writers in [1, 64] {
        compare(&format!("SQLite, synchronous=FULL, {writers} writers"), &on_sqlite, writers).await?;
    }
    Ok(())
}

/// The first of them is what the others are compared with.
async fn compare(title: &str, contestants: &[Contestant], writers: usize) -> Result<(), Error> {
    let mut figures = vec![Vec::new(); contestants.len()];
    for round in 0..=ROUNDS {
        for (contestant, figures) in contestants.iter().zip(&mut figures) {
            let rate = rate(contestant, writers).await?;
            // The first round warms plans and caches.
            if round > 0 {
                figures.push(rate);
            }
        }
    }
    println!("| {title} | a second | lowest | highest | ratio |\n|---|---|---|---|---|");
    let mut base = None;
    for (contestant, mut figures) in contestants.iter().zip(figures) {
        figures.sort_by(f64::total_cmp);
        let median = figures[ROUNDS / 2];
        let ratio = median / *base.get_or_insert(median);
        let (low, high) = (figures[0], figures[ROUNDS - 1]);
        println!("| {} | {median:.0} | {low:.0} | {high:.0} | {ratio:.2} |", contestant.name());
    }
    println!();
    Ok(())
}

async fn rate(contestant: &Contestant, writers: usize) -> Result<f64, Error> {
    let start = Instant::now();
    let each = (0..writers).map(async |writer| {
        let mut written = 0_usize;
        while start.elapsed() < TIME {
            contestant.append(writer).await?;
            written += 1;
        }
        Ok::<usize, Error>(written)
    });
    let written: usize = try_join_all(each).await?.into_iter().sum();
    Ok(written as f64 / start.elapsed().as_secs_f64())
}
