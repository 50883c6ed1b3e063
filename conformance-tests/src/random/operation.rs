//! The operations: what a client asks for, and what the world does.
//!
//! An operation names leases, ids and times by what happened before ("the newest lease but one, with another holder"),
//! so that it still means something when others before it are dropped.

/// A partition: of an episode, the first or the second. Their names differ in the case of a letter alone.
pub(crate) type Name = (u32, u8);

/// One step of a client, or of the world.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "the fields are those of the calls, picked as the types of the fields say")]
#[non_exhaustive]
pub enum Operation {
    /// Claims.
    Claim { partition: Name, holder: u8, ttl: u32, observed: Observed, acquisition: AcquisitionPick },
    /// Renews.
    Renew { token: Token, ttl: Option<u32> },
    /// Releases.
    Release { token: Token },
    /// Ends a tenure as an operator.
    EndTenure { partition: Name, observed: Observed },
    /// Advances as an operator.
    Advance { partition: Name, operator: u8, above: Above, acquisition: AcquisitionPick },
    /// Sends an advance again: the newest but so many, or one that differs from it in its reason.
    AdvanceAgain { back: u8, other: bool },
    /// Appends so many events; `expected` is relative to the head, `remark` is kept if it is refused.
    Append { token: Token, id: IdPick, other_content: bool, events: u8, expected: Option<i8>, remark: Option<u8> },
    /// Asks for the fate of an id that was used, under a generation relative to the current one.
    Fate { partition: Name, id: u8, generation: i8 },
    /// Observes.
    Observe { partition: Name },
    /// Reads from a position, some pages of a size.
    Read { partition: Name, from: u8, way: Way, size: Size },
    /// Lists the partitions after a name, some pages of so many.
    Partitions { after: Option<Name>, limit: u8 },
    /// Lists the rejection records.
    Records { partition: Name },
    /// Goes on with the other of two handles.
    OtherHandle,
    /// Moves the store's clock.
    Clock(ClockMove),
    /// Restarts the store, where it can.
    Restart,
}

/// A lease that was granted before: the newest but so many, with a change in it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Token {
    /// How many leases were granted later.
    pub back: u8,
    /// What is forged.
    pub change: Change,
}

/// What is forged in a lease.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Change {
    /// Nothing.
    None,
    /// Another holder.
    Holder(u8),
    /// Another generation.
    Generation(i8),
    /// Another acquisition: that of another lease, or none that ever was.
    Acquisition(Option<u8>),
    /// The other partition.
    Partition,
    /// Another ledger.
    Ledger,
    /// An expiry far away, which no store may believe.
    Expiry,
}

/// What a claimant has seen.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Observed {
    /// The state as it is.
    Current,
    /// Nobody.
    Never,
    /// A generation beside the current one.
    Generation(i8),
    /// The current generation with another acquisition.
    Acquisition,
}

/// The generation that an operator wants to be above.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Above {
    /// None in particular.
    None,
    /// One beside the current one.
    Beside(i8),
    /// The last but one that there is.
    LastButOne,
}

/// How a log is read.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Way {
    /// Forward.
    Forward,
    /// Backward from the position.
    Backward,
    /// Backward from the head.
    BackwardFromTheHead,
    /// Forward, the events of one kind alone.
    OfKind(u8),
}

/// The size of a page.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Size {
    /// The largest.
    Max,
    /// At most so many events.
    Items(u8),
    /// At most so many bytes.
    Bytes(u8),
}

/// An acquisition.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum AcquisitionPick {
    /// One that nobody used.
    Fresh(u128),
    /// One that a lease has.
    Known(u8),
}

/// An append's id.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum IdPick {
    /// One that nobody used.
    Fresh(u128),
    /// One that was sent before.
    Known(u8),
}

/// A move of the clock.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum ClockMove {
    /// To a partition's expiry, or a microsecond beside it.
    #[allow(missing_docs, reason = "the partition, and the microseconds")]
    Expiry { partition: Name, by: i8 },
    /// By so many microseconds.
    By(i32),
}
