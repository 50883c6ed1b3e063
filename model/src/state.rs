//! What a state of the model is made of.

/// Holder, generation and acquisition, as a call presents them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_structs, reason = "a lease's identity is these three")]
pub struct Token {
    /// The holder.
    pub holder: u8,
    /// The generation.
    pub generation: u8,
    /// The acquisition.
    pub acquisition: u8,
}

/// The stored lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_structs, reason = "read by tests")]
pub struct Lease {
    /// Whose it is.
    pub token: Token,
    /// The expiry.
    pub expires: u8,
    /// Whether it was released, or left vacant by an advance.
    pub vacant: bool,
}

/// An append that a call brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_structs, reason = "a token and an id")]
pub struct Append {
    /// What is presented.
    pub token: Token,
    /// The append's id.
    pub id: u8,
}

/// What an entry of the log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_enums, reason = "the entries that the model has")]
pub enum Kind {
    /// `$claimed`.
    Claimed,
    /// An append with its id.
    Appended(u8),
    /// `$released`.
    Released,
    /// An operator's advance to a generation above every one that was ever seen (I3).
    Advanced,
}

/// An entry of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_structs, reason = "read by tests")]
pub struct Entry {
    /// What it is.
    pub kind: Kind,
    /// What was presented; of a claim what was granted.
    pub token: Token,
    /// The recorded time.
    pub at: u8,
    /// The stored lease when it was written, of an append and a release.
    pub seen: Option<Lease>,
}

/// The log of the partition.
pub type Log = Vec<Entry>;

/// What the store holds: all that a restore sets back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_structs, reason = "read by tests")]
pub struct Store {
    /// The stored lease, once the partition was claimed.
    pub lease: Option<Lease>,
    /// The recorded time (T2).
    pub recorded: u8,
    /// The log.
    pub log: Log,
}

impl Store {
    /// The generation, acquisition 0 and all: where nobody has claimed yet, all are 0.
    pub(crate) fn token(&self) -> Token {
        self.lease.map_or(Token { holder: 0, generation: 0, acquisition: 0 }, |lease| lease.token)
    }

    /// The time at which the store judges when its clock shows `clock` (T2).
    pub fn judged(&self, clock: u8) -> u8 {
        clock.max(self.recorded)
    }

    /// Whether a generation has visibly ended (U2).
    pub(crate) fn has_visibly_ended(&self, generation: u8) -> bool {
        self.lease.is_some_and(|lease| {
            generation < lease.token.generation
                || (generation == lease.token.generation && (lease.vacant || self.recorded >= lease.expires))
        })
    }

    /// The entry of an append's id.
    pub(crate) fn appended(&self, id: u8) -> Option<&Entry> {
        self.log.iter().find(|entry| entry.kind == Kind::Appended(id))
    }

    /// Whether an acquisition is known to have been granted.
    pub(crate) fn knows(&self, acquisition: u8) -> bool {
        self.log.iter().any(|entry| entry.kind == Kind::Claimed && entry.token.acquisition == acquisition)
    }

    /// The store as it stood just after its first `entries` entries.
    pub(crate) fn copy_after(&self, entries: usize, ttl: u8) -> Self {
        let log = self.log[..entries].to_vec();
        let Some(last) = log.last() else { return Self::default() };
        let lease = match (last.kind, last.seen) {
            (Kind::Claimed, _) => Lease { token: last.token, expires: last.at + ttl, vacant: false },
            (Kind::Appended(_), Some(seen)) => seen,
            (Kind::Released, Some(seen)) => Lease { vacant: true, ..seen },
            (kind, _) => unreachable!("nothing is restored after an advance, and {kind:?} has its lease"),
        };
        Self { lease: Some(lease), recorded: last.at, log }
    }
}

/// An append in the middle: judged, and not yet committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_structs, reason = "read by tests")]
pub struct Pending {
    /// The append.
    pub append: Append,
    /// The time that it was judged at, or that a store with a bug took too early.
    pub at: u8,
    /// Whether it holds the partition's lock. Only a store with a bug goes on without.
    pub locked: bool,
}

/// A state of the model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_structs, reason = "read by tests")]
pub struct State {
    /// The store's clock. It steps back, too.
    pub clock: u8,
    /// What the store holds.
    pub store: Store,
    /// The one append in the middle.
    pub pending: Option<Pending>,
    /// The witness's mark: the log up to there, which is what a chain value stands for (I1, I3).
    pub mark: Log,
    /// How many acquisitions were ever granted.
    pub minted: u8,
    /// Every generation with the acquisition that it was granted to, also those that a restore has lost.
    pub granted: Vec<(u8, u8)>,
    /// Whether somebody was told that the newest tenure has expired.
    pub told: bool,
    /// How often an older copy was restored.
    pub restores: u8,
    /// The properties of steps that a step has broken; empty but for bugs.
    pub broken: u16,
}

impl State {
    /// Whether the store is behind the witness's mark, or has another chain at it (I3).
    pub fn rolled_back(&self) -> bool {
        !self.store.log.starts_with(&self.mark)
    }
}
