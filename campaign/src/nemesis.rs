//! The nemesis: what it can do to processes and stores, and when it does it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use fastrand::Rng;
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use test_postgres::{Armed, Fault as OnTheWire, Trigger};

use crate::Result;
use crate::field::Field;
use crate::plan::Engine;

/// What the nemesis can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Fault {
    /// SIGSTOP to a worker for half a TTL to three.
    Pause,
    /// SIGKILL to a worker, and another process under the same holder's name.
    Kill,
    /// The store's clock goes ahead by up to three TTLs.
    ClockAhead,
    /// The store's clock goes back by up to three TTLs.
    ClockBack,
    /// The store's clock is ten minutes ahead or behind for a while.
    ClockAstray,
    /// The disk is full for a while.
    DiskFull,
    /// `pg_terminate_backend` of a session.
    Terminate,
    /// `pg_cancel_backend` of a session: there is no standby to wait for, so a cancel never looks like a success.
    Cancel,
    /// The server carries a request out, and its reply is lost.
    DropReply,
    /// A part of the reply arrives.
    CutReply,
    /// The request is lost.
    DropRequest,
    /// A part of the request arrives.
    CutRequest,
    /// A request is late by up to three TTLs.
    DelayRequest,
    /// A reply is late by up to three TTLs.
    DelayReply,
    /// A request is held until its lease is long over, and then delivered; its sender may be gone.
    Hold,
    /// The server stops at once, and recovers.
    Crash,
    /// The server's processes are paused.
    PauseServer,
}

impl Fault {
    /// Those that there are for a store.
    pub(crate) fn of(engine: Engine) -> &'static [Self] {
        const SQLITE: &[Fault] =
            &[Fault::Pause, Fault::Kill, Fault::ClockAhead, Fault::ClockBack, Fault::ClockAstray, Fault::DiskFull];
        const POSTGRES: &[Fault] = &[
            Fault::Pause,
            Fault::Kill,
            Fault::ClockAhead,
            Fault::ClockBack,
            Fault::ClockAstray,
            Fault::DiskFull,
            Fault::Terminate,
            Fault::Cancel,
            Fault::DropReply,
            Fault::CutReply,
            Fault::DropRequest,
            Fault::CutRequest,
            Fault::DelayRequest,
            Fault::DelayReply,
            Fault::Hold,
            Fault::Crash,
            Fault::PauseServer,
        ];
        match engine {
            Engine::Sqlite => SQLITE,
            Engine::Postgres => POSTGRES,
        }
    }

    /// Whether processes of the server have to do something.
    fn needs_the_server(self) -> bool {
        matches!(self, Self::Terminate | Self::Cancel | Self::Crash)
    }

    fn name(self) -> String {
        serde_json::to_value(self).ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
    }
}

/// What is still to be done about a fault.
enum Later {
    Resume(usize),
    Deliver(Armed),
    Clock,
    EmptyDisk,
    ResumeServer,
}

/// The nemesis of one round.
pub(crate) struct Nemesis {
    rng: Rng,
    later: Vec<(Instant, Later)>,
    /// How far the store's clock is ahead.
    ahead: f64,
    pub(crate) struck: BTreeMap<String, u64>,
}

impl Nemesis {
    pub(crate) fn new(seed: u64) -> Self {
        Self { rng: Rng::with_seed(seed), later: Vec::new(), ahead: 0.0, struck: BTreeMap::new() }
    }

    /// Strikes for so long.
    pub(crate) fn rage(&mut self, field: &mut Field, time: Duration) -> Result<()> {
        let end = Instant::now() + time;
        let mut next = Instant::now() + field.plan.pace;
        while Instant::now() < end {
            self.do_later(field, Instant::now())?;
            if Instant::now() >= next {
                if let Some(fault) = self.rng.choice(field.plan.faults.clone()) {
                    self.strike(field, fault)?;
                }
                next = Instant::now() + field.plan.pace.mul_f64(0.3 + 1.4 * self.rng.f64());
            }
            // A worker that ended by itself has a bug or found its store replaced: another takes its place.
            for nth in 0..field.workers.len() {
                if field.workers[nth].has_ended() {
                    field.start_worker(nth)?;
                }
            }
            // Between two looks at the time.
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Ends what is under way: everything goes on, and the clock is right.
    pub(crate) fn heal(&mut self, field: &mut Field) -> Result<()> {
        let far = Instant::now() + Duration::from_secs(3_600);
        self.do_later(field, far)?;
        self.ahead = 0.0;
        field.set_clock(0.0)?;
        field.workers.iter().for_each(|worker| worker.signal(Signal::CONT));
        self.bring_server_back(field)
    }

    fn do_later(&mut self, field: &mut Field, until: Instant) -> Result<()> {
        let all = std::mem::take(&mut self.later);
        let (due, later) = all.into_iter().partition(|(at, _)| *at <= until);
        self.later = later;
        let due: Vec<(Instant, Later)> = due;
        for (_, what) in due {
            match what {
                Later::Resume(nth) => field.workers[nth].signal(Signal::CONT),
                Later::Deliver(armed) => {
                    // One that struck nothing must not wait for the barrier's calls.
                    if !armed.disarm() {
                        armed.deliver();
                    }
                }
                Later::Clock => {
                    self.ahead = 0.0;
                    field.set_clock(0.0)?;
                }
                Later::EmptyDisk => {
                    if let Some(disk) = &field.disk {
                        disk.empty();
                    }
                    self.bring_server_back(field)?;
                }
                Later::ResumeServer => {
                    if let Some(server) = &field.server {
                        server.resume()?;
                    }
                }
            }
        }
        Ok(())
    }

    fn strike(&mut self, field: &mut Field, fault: Fault) -> Result<()> {
        let ttl = field.plan.ttl;
        let some_ttls = ttl.mul_f64(0.5 + 2.5 * self.rng.f64());
        let nth = self.rng.usize(..field.workers.len());
        // It would be waited for here, by the thread that lets it go on.
        let is_pending = |is: fn(&Later) -> bool| self.later.iter().any(|(_, what)| is(what));
        if fault.needs_the_server() && is_pending(|what| matches!(what, Later::ResumeServer)) {
            return Ok(());
        }
        let is_full = is_pending(|what| matches!(what, Later::EmptyDisk));
        match fault {
            Fault::Pause => {
                field.workers[nth].signal(Signal::STOP);
                self.after(some_ttls, Later::Resume(nth));
            }
            Fault::Kill => {
                field.workers[nth].kill();
                field.start_worker(nth)?;
            }
            Fault::ClockAhead => self.step(field, some_ttls.as_secs_f64())?,
            Fault::ClockBack => self.step(field, -some_ttls.as_secs_f64())?,
            Fault::ClockAstray => {
                let far = if self.rng.bool() { 600.0 } else { -600.0 };
                self.step(field, far)?;
                self.after(some_ttls, Later::Clock);
            }
            Fault::DiskFull => {
                let Some(disk) = &field.disk else { return Ok(()) };
                disk.fill()?;
                self.after(some_ttls.min(Duration::from_secs(1)), Later::EmptyDisk);
            }
            Fault::Terminate | Fault::Cancel => {
                let what = if fault == Fault::Cancel { "pg_cancel_backend" } else { "pg_terminate_backend" };
                let sql = format!(
                    "select {what}(pid) from pg_stat_activity where backend_type = 'client backend' \
                     and pid <> pg_backend_pid() order by random() limit 2"
                );
                let Some(server) = &field.server else { return Ok(()) };
                if server.query(&sql).is_err() {
                    // It is down just now, or full.
                    return Ok(());
                }
            }
            Fault::Crash => {
                let Some(server) = &field.server else { return Ok(()) };
                server.crash()?;
                // On a full disk it is started when there is room.
                if !is_full && server.start().is_ok() {
                    field.recorder.store_crashed()?;
                }
            }
            Fault::PauseServer => {
                let Some(server) = &field.server else { return Ok(()) };
                server.pause()?;
                self.after(some_ttls.min(Duration::from_millis(800)), Later::ResumeServer);
            }
            _ => {
                let on_the_wire = match fault {
                    Fault::DropReply => OnTheWire::DropReply,
                    Fault::CutReply => OnTheWire::CutReply(self.rng.usize(1..200)),
                    Fault::DropRequest => OnTheWire::DropRequest,
                    Fault::CutRequest => OnTheWire::CutRequest(self.rng.usize(1..200)),
                    Fault::DelayRequest => OnTheWire::Delay(some_ttls),
                    Fault::DelayReply => OnTheWire::DelayReply(some_ttls),
                    _ => OnTheWire::Hold,
                };
                let trigger = match self.rng.u8(..4) {
                    0 => Trigger::Query,
                    1 => Trigger::Containing(".claim(".to_owned()),
                    2 => Trigger::Containing(".renew(".to_owned()),
                    _ => Trigger::Containing(".append(".to_owned()),
                };
                let Some(proxy) = &field.proxy else { return Ok(()) };
                let armed = proxy.arm(trigger, on_the_wire);
                if fault == Fault::Hold {
                    if self.rng.bool() && armed.wait_struck(Duration::from_millis(50)) {
                        armed.cut_client();
                    }
                    self.after(some_ttls, Later::Deliver(armed));
                }
            }
        }
        *self.struck.entry(fault.name()).or_default() += 1;
        field.note(format!("{fault:?} {nth} {some_ttls:?}"));
        Ok(())
    }

    fn step(&mut self, field: &Field, by: f64) -> Result<()> {
        self.ahead += by;
        field.set_clock(self.ahead)
    }

    fn after(&mut self, time: Duration, what: Later) {
        self.later.push((Instant::now() + time, what));
    }

    /// A server that met a full disk may have ended.
    fn bring_server_back(&mut self, field: &Field) -> Result<()> {
        let Some(server) = &field.server else { return Ok(()) };
        server.resume()?;
        if field.disk.is_some() {
            // It may be recovering by itself, or have given up.
            if server.value("select 1").is_err() {
                server.crash()?;
            }
            field.recorder.store_crashed()?;
        }
        Ok(server.start()?)
    }
}
