//! Partitions: the unit of ownership and of order.

use crate::{Digest, Judged, Lease, LedgerId, Observation, Position, Timestamp, Vacancy, name};

name::text_newtype!(
    /// Names a partition: 1 to 255 bytes of UTF-8 without control characters.
    ///
    /// Names compare byte for byte: `a`, `A`, the composed and the decomposed `á`, and a name with a trailing
    /// space are five partitions. A name is data, never part of a statement.
    PartitionId(name::Hashed),
    "partition",
    |text| name::check("partition", text)
);

impl PartitionId {
    /// The SHA-256 of the name, which enters the chain (I1). Computed when the name is made.
    pub fn digest(&self) -> Digest {
        self.0.digest()
    }
}

/// What a store knows of a partition at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PartitionState {
    /// The ledger that was asked.
    pub ledger: LedgerId,
    /// The partition that was asked about.
    pub partition: PartitionId,
    /// The newest tenure, or `None` where the partition was never claimed.
    pub tenure: Option<TenureState>,
    /// The time and the revision at which the state was read.
    pub judged: Judged,
}

impl PartitionState {
    /// For a backend: the answer of [`observe`](crate::FencedLedger::observe).
    pub fn new(ledger: LedgerId, partition: PartitionId, tenure: Option<TenureState>, judged: Judged) -> Self {
        Self { ledger, partition, tenure, judged }
    }

    /// What a claim that starts from this state names as observed (C1).
    pub fn observation(&self) -> Observation {
        match &self.tenure {
            None => Observation::NeverClaimed,
            Some(tenure) => Observation::of(&tenure.lease),
        }
    }

    /// Whether a claim from this state would find the partition free: never claimed, vacant, or expired by the
    /// judged time (T3). A hint: only the claim itself is judged.
    pub fn is_free(&self) -> bool {
        self.tenure
            .as_ref()
            .is_none_or(|tenure| tenure.vacancy.is_some() || self.judged.time >= tenure.lease.expires_at)
    }
}

/// The newest tenure of a partition, and where its log ends.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TenureState {
    /// The lease as the store has it.
    pub lease: Lease,
    /// Why the partition is vacant, or `None` while the tenure was neither released nor ended.
    pub vacancy: Option<Vacancy>,
    /// The recorded time: the latest judged time that the partition has stored.
    pub recorded_at: Timestamp,
    /// The position of the newest event.
    pub head: Position,
    /// The chain value of the newest entry.
    pub chain: Digest,
}

impl TenureState {
    /// For a backend: the tenure part of an answer.
    pub fn new(lease: Lease, vacancy: Option<Vacancy>, recorded_at: Timestamp, head: Position, chain: Digest) -> Self {
        Self { lease, vacancy, recorded_at, head, chain }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Holder, Invalid};

    #[test]
    fn names_are_bytes_and_their_limits_are_named() {
        assert!(PartitionId::new("a".repeat(255)).is_ok());
        assert_eq!(
            PartitionId::new("é".repeat(128)),
            Err(Invalid::TooLong { what: "partition", limit: 255, actual: 256 })
        );
        assert_eq!(PartitionId::new(""), Err(Invalid::Empty { what: "partition" }));
        assert_eq!(PartitionId::new("a\0b"), Err(Invalid::ControlCharacter { what: "partition", code: 0, at: 1 }));
        assert!(PartitionId::new("line\u{85}").is_err(), "C1 control characters are control characters");
        assert!(PartitionId::new(" ").is_ok(), "a partition may be named by a space");
        assert!(serde_json::from_str::<PartitionId>("\"\"").is_err());
        for name in ["per%cent_", "it's", "a;b--", "/x/..", "1st", "a\u{301}", "á", "👩‍🚒", "a\u{200b}"] {
            assert_eq!(PartitionId::new(name).expect("odd names are names").as_str(), name);
        }
        assert_eq!(Holder::new(" \u{2003}"), Err(Invalid::Blank { what: "holder", actual: " \u{2003}".to_owned() }));
    }
}
