//! Options to open a ledger with.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ledger_core::{Clock, Durability, SystemClock};

use crate::file::{self, Probe};
use crate::ledger::SqliteLedger;
use crate::open;
use crate::open_error::OpenError;

/// Options to open a ledger with. See [`SqliteLedger::options`].
///
/// ```no_run
/// use ledger_sqlite::SqliteLedger;
/// use std::time::Duration;
///
/// # fn main() -> Result<(), ledger_sqlite::OpenError> {
/// let ledger = SqliteLedger::options().busy_timeout(Duration::from_secs(2)).readers(4).open("ledger.db")?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct SqliteOptions {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) durability: Durability,
    pub(crate) busy_timeout: Duration,
    pub(crate) readers: usize,
    pub(crate) allows_network: bool,
    pub(crate) allows_other_tables: bool,
    pub(crate) probe: Probe,
    pub(crate) max_pages: Option<u32>,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            clock: Arc::new(SystemClock),
            durability: Durability::MachineCrash,
            busy_timeout: Duration::from_secs(10),
            readers: 2,
            allows_network: false,
            allows_other_tables: false,
            probe: file::probe,
            max_pages: None,
        }
    }
}

impl SqliteOptions {
    /// The clock that judges (T1): the host's wall clock, if not set. All processes must go by the same.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// What an acknowledged write survives (S2): [`Durability::MachineCrash`] (`synchronous=FULL`), if not set.
    ///
    /// With [`Durability::ProcessCrash`] (`synchronous=NORMAL`) a crash of the machine may take the newest writes back,
    /// claims among them: two tenures may then have had one generation.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    /// How long a call waits for the write lock, and the opening for the file: 10 s, if not set. Then it is answered
    /// as not written, [`FailureKind::Busy`](ledger_core::FailureKind::Busy). At most 2^31 - 1 ms, some 24 days.
    #[must_use]
    pub fn busy_timeout(mut self, timeout: Duration) -> Self {
        self.busy_timeout = timeout;
        self
    }

    /// How many threads read, each with a connection of its own: 2, if not set; at least 1.
    #[must_use]
    pub fn readers(mut self, readers: usize) -> Self {
        self.readers = readers.max(1);
        self
    }

    /// Opens the file also where it lies on a network file system, or on one that can not be told from such. SQLite's
    /// write-ahead log then needs working locks and shared memory, and one machine alone that uses the file.
    #[must_use]
    pub fn allow_network_file_system(mut self) -> Self {
        self.allows_network = true;
        self
    }

    /// Installs the ledger also in a database that has tables already and names no other application: business tables,
    /// with which appends are to share [transactions](SqliteLedger::append_in).
    ///
    /// Once installed, the ledger is opened without this. Names that start with `fenced_` are the ledger's.
    #[must_use]
    pub fn install_beside_other_tables(mut self) -> Self {
        self.allows_other_tables = true;
        self
    }

    /// Opens the ledger in a file, and makes it where there is none. Blocks for a moment.
    ///
    /// # Errors
    ///
    /// [`OpenError`] has a variant for each cause.
    pub fn open(self, path: impl AsRef<Path>) -> Result<SqliteLedger, OpenError> {
        open::open(&self, path.as_ref())
    }

    /// For tests: another answer to what file system a path lies on.
    #[doc(hidden)]
    #[must_use]
    pub fn file_system_probe(mut self, probe: fn(&Path) -> Option<u32>) -> Self {
        self.probe = probe;
        self
    }

    /// For tests: the database may have so many pages, and is full then.
    #[doc(hidden)]
    #[must_use]
    pub fn max_pages(mut self, pages: u32) -> Self {
        self.max_pages = Some(pages);
        self
    }
}
