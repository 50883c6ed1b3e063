//! Mistakes of a store, one a switch.

/// A mistake in the protocol. The property that it breaks stands in `tests/bugs.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_enums, reason = "tests go through all of them")]
pub enum Bug {
    /// The holder that is presented is not compared.
    IgnoresHolder,
    /// The generation is not compared.
    IgnoresGeneration,
    /// The acquisition is not compared.
    IgnoresAcquisition,
    /// A lease never expires for its holder.
    IgnoresExpiry,
    /// A lease is valid at its expiry (T3).
    ValidAtExpiry,
    /// A released tenure may still write.
    IgnoresRelease,
    /// A claim after a release gets the same generation again.
    ReusesGeneration,
    /// A claim may bring an acquisition that was granted before.
    ReusesAcquisition,
    /// A release forgets the generation.
    ResetsGeneration,
    /// A renewal is granted after the end.
    RevivesByRenewal,
    /// Anybody can release.
    ReleasesForOthers,
    /// A valid lease is taken.
    Steals,
    /// An id is not looked up.
    WritesTwice,
    /// Judged by the clock alone, though it has stepped back.
    FollowsTheClockBack,
    /// Judged first and written later, with no lock in between.
    ChecksThenWrites,
    /// Judged under the lock, but at the time of the call's start.
    JudgesByStartTime,
    /// A claim's observation is not compared.
    IgnoresObservation,
    /// An expiry that was told is not stored.
    ForgetsExpiry,
    /// `fate` goes by the clock instead of by what is committed.
    FateByClock,
    /// `fate` says never of all that is not there.
    FateNeverWhenAbsent,
    /// The witness is not asked.
    NoWitness,
    /// Only the length of the log is compared with the mark.
    WitnessComparesPosition,
    /// Only the generation is compared with the mark.
    WitnessComparesGeneration,
    /// An advance goes one above the restored copy's own generation.
    AdvancesTooLittle,
}

impl Bug {
    /// All of them.
    pub const ALL: [Self; 24] = [
        Self::IgnoresHolder,
        Self::IgnoresGeneration,
        Self::IgnoresAcquisition,
        Self::IgnoresExpiry,
        Self::ValidAtExpiry,
        Self::IgnoresRelease,
        Self::ReusesGeneration,
        Self::ReusesAcquisition,
        Self::ResetsGeneration,
        Self::RevivesByRenewal,
        Self::ReleasesForOthers,
        Self::Steals,
        Self::WritesTwice,
        Self::FollowsTheClockBack,
        Self::ChecksThenWrites,
        Self::JudgesByStartTime,
        Self::IgnoresObservation,
        Self::ForgetsExpiry,
        Self::FateByClock,
        Self::FateNeverWhenAbsent,
        Self::NoWitness,
        Self::WitnessComparesPosition,
        Self::WitnessComparesGeneration,
        Self::AdvancesTooLittle,
    ];
}
