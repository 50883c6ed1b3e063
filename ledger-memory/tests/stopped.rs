//! K6 with a real process: a child that is stopped past its TTL finds its trust gone when it goes on, before its
//! ledger is asked.
#![cfg(target_os = "linux")]

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use ledger_core::keeper::{BootClock, Keeper, LocalClock, Moment, Terms, Wait, WriteError};
use ledger_core::{
    Advance, Advanced, Append, AppendId, Appended, Claim, Claimed, Description, Ended, Fate, FencedLedger, Generation,
    Holder, Lease, NewEvent, Note, Observation, Page, PageSize, PartitionId, PartitionPage, PartitionState, Position,
    RecordPage, RecordSlot, Released, Renewal, Result, Ttl,
};
use ledger_memory::MemoryLedger;
use rustix::process::{Pid, Signal, kill_process};

const TTL: Duration = Duration::from_millis(600);

/// Notes when it is asked for something, by the boot clock.
#[derive(Debug, Default)]
struct Noting {
    ledger: MemoryLedger,
    calls: Mutex<Vec<(&'static str, Moment)>>,
}

impl Noting {
    fn note(&self, call: &'static str) -> &MemoryLedger {
        self.calls.lock().expect("no panic under this lock").push((call, BootClock.now()));
        &self.ledger
    }
}

#[async_trait]
impl FencedLedger for Noting {
    async fn describe(&self) -> Result<Description> {
        self.note("describe").describe().await
    }
    async fn observe(&self, partition: &PartitionId) -> Result<PartitionState> {
        self.note("observe").observe(partition).await
    }
    async fn claim(&self, claim: &Claim) -> Result<Claimed> {
        self.note("claim").claim(claim).await
    }
    async fn renew(&self, lease: &Lease, ttl: Option<Ttl>) -> Result<Renewal> {
        self.note("renew").renew(lease, ttl).await
    }
    async fn release(&self, lease: &Lease) -> Result<Released> {
        self.note("release").release(lease).await
    }
    async fn end_tenure(&self, partition: &PartitionId, observed: Observation, reason: &Note) -> Result<Ended> {
        self.note("end_tenure").end_tenure(partition, observed, reason).await
    }
    async fn advance(&self, advance: &Advance) -> Result<Advanced> {
        self.note("advance").advance(advance).await
    }
    async fn append(&self, lease: &Lease, append: &Append) -> Result<Appended> {
        self.note("append").append(lease, append).await
    }
    async fn fate(&self, partition: &PartitionId, id: AppendId, generation: Generation) -> Result<Fate> {
        self.note("fate").fate(partition, id, generation).await
    }
    async fn read(&self, partition: &PartitionId, from: Position, limit: PageSize) -> Result<Page> {
        self.note("read").read(partition, from, limit).await
    }
    async fn read_back(&self, partition: &PartitionId, from: Option<Position>, limit: PageSize) -> Result<Page> {
        self.note("read_back").read_back(partition, from, limit).await
    }
    async fn partitions(&self, after: Option<&PartitionId>, limit: PageSize) -> Result<PartitionPage> {
        self.note("partitions").partitions(after, limit).await
    }
    async fn rejections(
        &self,
        partition: Option<&PartitionId>,
        after: Option<RecordSlot>,
        limit: PageSize,
    ) -> Result<RecordPage> {
        self.note("rejections").rejections(partition, after, limit).await
    }
}

#[test]
fn stopped_process_finds_its_trust_gone() {
    let mut child = Command::new(std::env::current_exe().expect("a test has a path"))
        .args(["--exact", "child", "--ignored", "--nocapture"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the test's own binary can be started");
    let pid = Pid::from_child(&child);
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
    let mut line_with = |word: &str| {
        let found = lines.by_ref().map(|line| line.expect("text")).find(|line| line.contains(word));
        found.unwrap_or_else(|| panic!("the child ended without {word:?}"))
    };
    line_with("renewed");
    kill_process(pid, Signal::STOP).expect("the child is ours");
    while !is_stopped(pid) {
        std::thread::yield_now();
    }
    // What is tested is that real time goes on while the process does not: past the TTL.
    std::thread::sleep(TTL * 2);
    // It waits for this line, and appends as its first act when it goes on.
    writeln!(child.stdin.take().expect("it is piped"), "append").expect("the child reads");
    kill_process(pid, Signal::CONT).expect("the child is ours");
    let told = line_with("result:");
    assert!(child.wait().expect("the child is ours").success(), "{told}");
    assert!(told.contains("result: not sent, lost: its time ran out"), "{told}");
    assert!(told.contains("calls after the end of the trust: []"), "{told}");
}

/// Holds a lease until its parent lets it append, and tells what became of that.
#[test]
#[ignore = "the child process of the other test"]
fn child() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a thread can be started");
    let ledger = Arc::new(Noting::default());
    let terms = Terms::new(Ttl::try_from(TTL).expect("a TTL"));
    let (jobs, holder) = (PartitionId::new("jobs").expect("a name"), Holder::new("child").expect("a name"));
    let keeper = Keeper::new(ledger.clone(), jobs, holder, terms).expect("the usual terms");
    let (writer, driver) = runtime.block_on(keeper.claim(Wait::No)).expect("nobody else is there");
    let driver = runtime.spawn(driver);
    while keeper.counts().renewals < 2 {
        // A pause between two looks: what is waited for is the condition.
        std::thread::sleep(Duration::from_millis(5));
    }
    println!("renewed");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("the parent writes a line");
    let append = Append::new([NewEvent::of("noted", &1).expect("JSON")]).expect("an append");
    let result = match runtime.block_on(writer.append(&append)) {
        Err(WriteError::Ended(end)) => format!("not sent, {end}"),
        other => format!("{other:?}"),
    };
    runtime.block_on(driver).expect("the driver ends by itself");
    let until = writer.trust().until;
    let calls = ledger.calls.lock().expect("no panic under this lock").clone();
    let late: Vec<_> = calls.iter().filter(|(_, at)| *at >= until).collect();
    println!("result: {result}; calls after the end of the trust: {late:?}");
}

/// Whether the kernel says that the process is stopped: `T` after its name in brackets.
fn is_stopped(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).expect("the child is there");
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('T'))
}
