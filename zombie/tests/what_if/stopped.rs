//! A worker is stopped past its lease (SIGSTOP) and goes on.

use std::io::Write;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

use crate::Result;
use crate::place::Place;
use crate::worker::{Step, TTL};

/// K6: it appends as its first act, finds its trust gone by its own clock, and its ledger is asked nothing.
pub(crate) async fn finds_its_trust_gone(place: Place) -> Result<()> {
    let mut worker = place.start(Step::Renewing, "127.0.0.1:1")?;
    worker.line_with("AT Renewing")?;
    let pid = Pid::from_child(&worker.child);
    kill_process(pid, Signal::STOP)?;
    let (_, status) = waitpid(Some(pid), WaitOptions::UNTRACED)?.ok_or("the worker stands still")?;
    assert!(status.stopped(), "{status:?}");
    // What is tested is that real time goes on while the process does not: past the TTL.
    std::thread::sleep(TTL * 2);
    writeln!(worker.child.stdin.take().ok_or("it is piped")?, "append")?;
    kill_process(pid, Signal::CONT)?;
    let told = worker.line_with("result:")?;
    assert!(told.contains("result: not sent, lost: its time ran out"), "{told}");
    assert!(told.contains("asked without trust: []"), "{told}");
    drop(worker);
    place.store.remove().await
}
