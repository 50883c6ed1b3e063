//! Faults: which request one strikes, what happens to it, and how a test sees that it has.

use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};
use std::time::Duration;

use super::lock;
use super::relay::{Connection, Shared};

/// Which request a [`Fault`] strikes: the next one, on any connection, that fits.
///
/// A *request* is what a client sends up to a `Query` or a `Sync` message. It *executes* the text of its `Query`, and of the prepared
/// statements of its `Execute` messages. Pings without a statement, preparing alone, and the start of a connection are no requests here.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Trigger {
    /// Executes anything at all.
    Query,
    /// Executes `COMMIT` or `END`, alone or as one of several statements.
    Commit,
    /// Executes a text that contains this one, whatever the case of its letters.
    Containing(String),
    /// Executes a text that contains one of these, whatever the case of its letters.
    ContainingAny(Vec<String>),
}

/// What happens to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The server executes it to its end; nothing of the reply reaches the client, whose connection is cut.
    DropReply,
    /// The server executes it; this many bytes of the reply reach the client, then its connection is cut.
    CutReply(usize),
    /// Nothing of it reaches the server; both connections are cut.
    DropRequest,
    /// This many bytes of it reach the server (all but one at most), then both connections are cut.
    CutRequest(usize),
    /// It reaches the server after this time.
    Delay(Duration),
    /// The server gets it at once, the client the reply after this time.
    DelayReply(Duration),
    /// It waits until [`Armed::deliver`] or [`Armed::discard`]; the client may leave in between ([`Armed::cut_client`]) and the server
    /// will execute it all the same.
    Hold,
}

/// A fault that was armed: to see whether it has struck, and to end a [`Fault::Hold`]. Dropping it changes nothing.
#[derive(Debug)]
pub struct Armed {
    pub(super) fault: Arc<ArmedFault>,
    pub(super) proxy: Weak<Shared>,
}

impl Armed {
    /// Waits until a request has been struck; `false` if none was in that time.
    #[must_use]
    pub fn wait_struck(&self, patience: Duration) -> bool {
        self.fault.wait(patience, |progress| progress.connection.is_some())
    }

    /// Waits until all is over: the request is dropped or cut, or the server has answered it to its end. `false` if not in that time.
    #[must_use]
    pub fn wait_done(&self, patience: Duration) -> bool {
        self.fault.wait(patience, |progress| progress.done)
    }

    /// [`wait_done`](Self::wait_done) with ten seconds of patience.
    ///
    /// # Panics
    ///
    /// Where the fault has not run its course by then.
    pub fn expect_done(&self) {
        assert!(self.wait_done(Duration::from_secs(10)), "the fault is not done after 10 s: {:?}", self.fault.fault);
    }

    /// Lets a held request go on to the server, and the reply to the client if it is still there.
    pub fn deliver(&self) {
        self.fault.step(|progress| progress.verdict = Some(Verdict::Deliver));
    }

    /// Throws a held request away and cuts both connections.
    pub fn discard(&self) {
        self.fault.step(|progress| progress.verdict = Some(Verdict::Discard));
    }

    /// Cuts the connection of the client whose request was struck, and leaves the server's open.
    pub fn cut_client(&self) {
        let connection = lock(&self.fault.progress).connection.clone();
        if let Some(connection) = connection {
            connection.client.close();
        }
    }

    /// Takes a fault back that has not struck yet. `false` if it has.
    pub fn disarm(&self) -> bool {
        let Some(proxy) = self.proxy.upgrade() else { return false };
        let mut armed = lock(&proxy.armed);
        let before = armed.len();
        armed.retain(|other| !Arc::ptr_eq(other, &self.fault));
        armed.len() < before
    }
}

#[derive(Debug)]
pub(super) struct ArmedFault {
    pub(super) trigger: Trigger,
    pub(super) fault: Fault,
    pub(super) progress: Mutex<Progress>,
    pub(super) changed: Condvar,
}

#[derive(Debug, Default)]
pub(super) struct Progress {
    pub(super) connection: Option<Arc<Connection>>,
    pub(super) verdict: Option<Verdict>,
    pub(super) done: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Verdict {
    Deliver,
    Discard,
}

impl ArmedFault {
    pub(super) fn step(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut lock(&self.progress));
        self.changed.notify_all();
    }

    pub(super) fn wait(&self, patience: Duration, what: impl Fn(&Progress) -> bool) -> bool {
        let progress = lock(&self.progress);
        let waited = self.changed.wait_timeout_while(progress, patience, |progress| !what(progress));
        what(&waited.unwrap_or_else(PoisonError::into_inner).0)
    }

    pub(super) fn verdict(&self) -> Verdict {
        let progress = lock(&self.progress);
        let progress = self.changed.wait_while(progress, |progress| progress.verdict.is_none());
        progress.unwrap_or_else(PoisonError::into_inner).verdict.unwrap_or(Verdict::Discard)
    }
}

impl Trigger {
    pub(super) fn fits(&self, executed: &[String]) -> bool {
        let commits = |sql: &String| {
            sql.split(';').any(|statement| {
                let word: String = statement.trim_start().chars().take_while(char::is_ascii_alphabetic).collect();
                word.eq_ignore_ascii_case("commit") || word.eq_ignore_ascii_case("end")
            })
        };
        match self {
            Self::Query => !executed.is_empty(),
            Self::Commit => executed.iter().any(commits),
            Self::Containing(text) => contains(executed, text),
            Self::ContainingAny(texts) => texts.iter().any(|text| contains(executed, text)),
        }
    }
}

fn contains(executed: &[String], text: &str) -> bool {
    let text = text.to_lowercase();
    executed.iter().any(|sql| sql.to_lowercase().contains(&text))
}
