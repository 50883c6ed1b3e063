//! What checking a history costs: 1,000,000 calls of 25 clients on one partition.
//!
//! The calls really run, on the ledger in memory, and overlap. What is timed is the check alone; reading the files of a
//! history back is timed beside it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use conformance_tests::history::{Answer, Call, Content, History, Invocation, Line, check};
use ledger_core::{
    Append, AppendId, Claim, FencedLedger, Holder, Lease, ManualClock, NewEvent, Observation, PartitionId, Ttl,
};
use ledger_memory::MemoryLedger;

use crate::Result;
use crate::report::{Report, Row};

/// How long one operation of a client lasts at most, in ticks of which one has one effect.
const OVERLAP: u64 = 24;

/// How the history is to be made.
#[derive(clap::Args)]
pub(crate) struct Size {
    /// How many calls.
    #[arg(long, default_value_t = 1_000_000)]
    calls: u64,
    /// How many clients make them, on one partition.
    #[arg(long, default_value_t = 25)]
    clients: u64,
}

pub(crate) async fn run(size: &Size, rounds: usize) -> Result<Report> {
    let (history, content) = generate(size).await?;
    let lines: Vec<String> = history
        .invocations
        .iter()
        .take(100_000)
        .map(|call| {
            serde_json::to_string(&Line::Called { number: call.number, at: call.called_at, call: call.call.clone() })
        })
        .collect::<std::result::Result<_, _>>()?;
    let mut checked = Row::new("check", None);
    let mut processor = Row::new("check, processor time", None);
    let mut read = Row::new("read 100,000 lines", None);
    for _ in 0..rounds {
        let (start, used) = (Instant::now(), processor_time());
        let findings = check(&history, &content);
        checked.rounds.push(start.elapsed().as_secs_f64() * 1e3);
        processor.rounds.push((processor_time() - used) * 1e3);
        if !findings.violations.is_empty() {
            return Err(format!("a right ledger was accused: {findings}").into());
        }
        let start = Instant::now();
        for line in &lines {
            serde_json::from_str::<Line>(line)?;
        }
        read.rounds.push(start.elapsed().as_secs_f64() * 1e3);
    }
    let title = format!("{} calls of {} clients on one partition", history.invocations.len(), size.clients);
    Ok(Report { title, unit: "ms", rows: vec![checked, processor, read] })
}

/// What this thread has used of a processor, in seconds: on a machine that others use too, the wall clock says little.
fn processor_time() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0)).as_secs_f64()
}

/// A numbers' mill: the benchmark needs a mixture, and the same one each time.
struct Mixer(u64);

impl Mixer {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

async fn generate(size: &Size) -> Result<(History, Content)> {
    let (clock, mut mixer) = (ManualClock::default(), Mixer(1));
    let ledger = MemoryLedger::with_clock(clock.clone());
    let partition = PartitionId::new("p")?;
    let names: Vec<Arc<str>> = (0..size.clients).map(|nth| format!("c{nth}").into()).collect();
    let mut free_from = vec![0_u64; names.len()];
    let mut leases: Vec<Lease> = Vec::new();
    let mut invocations = Vec::new();
    for number in 0..size.calls {
        clock.advance(Duration::from_millis(1));
        let nth = usize::try_from(mixer.below(size.clients))?;
        let (call, answer) = carry_out(&ledger, &partition, &names[nth], &mut leases, &mut mixer).await?;
        let effect = (number + OVERLAP) * 100;
        let called_at = (effect - mixer.below(OVERLAP * 100)).max(free_from[nth] + 1).min(effect);
        let returned_at = effect + 1 + mixer.below(OVERLAP * 100);
        free_from[nth] = returned_at.min(effect + 99);
        let answer = match mixer.below(100) {
            0 => None,
            1 => Some((returned_at, Answer::Unknown("lost".to_owned()))),
            _ => Some((returned_at.min(effect + 99), answer)),
        };
        invocations.push(Invocation::new(names[nth].clone(), number, called_at, call, answer));
    }
    clock.advance(Duration::from_secs(600));
    let observed = ledger.observe(&partition).await?.observation();
    let claim = Claim::new(partition.clone(), Holder::new("barrier")?, Ttl::MAX, observed);
    let granted = Answer::of_claimed(&ledger.claim(&claim).await?);
    let at = (size.calls + 2 * OVERLAP) * 200;
    invocations.push(Invocation::new("barrier".into(), 0, at, Call::Claim(claim), Some((at + 1, granted))));
    let content = Content::read(&ledger).await.map_err(|stop| stop.to_string())?;
    Ok((History::new(invocations), content))
}

/// One call of the mixture, carried out.
async fn carry_out(
    ledger: &MemoryLedger,
    partition: &PartitionId,
    name: &str,
    leases: &mut Vec<Lease>,
    mixer: &mut Mixer,
) -> Result<(Call, Answer)> {
    let kind = mixer.below(100);
    let Some(newest) = leases.last().cloned().filter(|_| kind < 97) else {
        let observed = match leases.last() {
            Some(lease) => Observation::of(lease),
            None => Observation::NeverClaimed,
        };
        let claim = Claim::new(partition.clone(), Holder::new(name)?, Ttl::from_millis(50)?, observed);
        let answer = ledger.claim(&claim).await;
        leases.extend(answer.as_ref().ok().map(|claimed| claimed.lease.clone()));
        let answer = answer.as_ref().map_or_else(Answer::of_error, Answer::of_claimed);
        return Ok((Call::Claim(claim), answer));
    };
    Ok(match kind {
        0..60 => {
            let old = usize::try_from(mixer.below(leases.len() as u64))?;
            let lease = if kind < 45 { newest } else { leases[old].clone() };
            let append = Append::with_id(AppendId::mint(), [NewEvent::of("noted", &kind)?])?;
            let answer = ledger.append(&lease, &append).await;
            let answer = answer.as_ref().map_or_else(Answer::of_error, Answer::of_appended);
            (Call::append(&lease, &append), answer)
        }
        60..75 => {
            let answer = ledger.renew(&newest, None).await;
            let answer = answer.as_ref().map_or_else(Answer::of_error, Answer::of_renewal);
            (Call::Renew { lease: newest, ttl: None }, answer)
        }
        75..78 => {
            let answer = ledger.release(&newest).await;
            (Call::Release(newest), answer.as_ref().map_or_else(Answer::of_error, Answer::of_released))
        }
        78..88 => {
            let (id, generation) = (AppendId::from(newest.acquisition), newest.generation);
            let answer = ledger.fate(partition, id, generation).await;
            let answer = answer.as_ref().map_or_else(Answer::of_error, Answer::of_fate);
            (Call::Fate { partition: partition.clone(), id, generation }, answer)
        }
        _ => {
            let answer = ledger.observe(partition).await;
            let answer = answer.as_ref().map_or_else(Answer::of_error, Answer::of_state);
            (Call::Observe(partition.clone()), answer)
        }
    })
}
