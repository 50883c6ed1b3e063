//! The hash chain (I1): its byte layout, and the functions that compute it.
//!
//! All numbers are big-endian and 8 bytes wide; `‖` joins; `H` is SHA-256. UUIDs are their 16 bytes.
//!
//! ```text
//! content  = H( number of events
//!               ‖ for each event: length ‖ kind ‖ length ‖ payload ‖ length ‖ metadata )
//! chain 0  = H( "fenced-ledger/chain/1" ‖ ledger id ‖ H(partition) )
//! chain n  = H( chain n-1                 32 bytes
//!               ‖ 0x01                     1   version
//!               ‖ ledger id               16
//!               ‖ H(partition)            32
//!               ‖ generation               8
//!               ‖ first position           8
//!               ‖ last position            8
//!               ‖ recorded time            8   microseconds since 1970, two's complement
//!               ‖ acquisition             16
//!               ‖ H(holder)               32
//!               ‖ entry id                16   the nil UUID where the entry has none
//!               ‖ content )               32
//! ```
//!
//! The chain moves once for each entry. Lengths count bytes of UTF-8. `docs/chain.py` of the project reproduces the
//! vectors in `docs/chain-vectors.json`, and so does the test below: another language computes the same.

use sha2::{Digest as _, Sha256};

use crate::{AppendId, Entry, Invalid, LedgerId, NewEvent, PartitionId};

const DOMAIN: &[u8] = b"fenced-ledger/chain/1";
const VERSION: u8 = 1;
/// The bytes of which a chain value is the digest.
const LINK: usize = 209;

/// A SHA-256 value: a chain value or the content of an entry. Printed as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest([u8; 32]);

impl Digest {
    /// A digest from its bytes.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl std::fmt::Display for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::fmt::Debug for Digest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> String {
        digest.to_string()
    }
}

impl TryFrom<String> for Digest {
    type Error = Invalid;
    fn try_from(text: String) -> Result<Self, Invalid> {
        let digits: Option<Vec<u8>> =
            text.chars().map(|digit| digit.to_digit(16).and_then(|value| u8::try_from(value).ok())).collect();
        let bytes: Option<[u8; 32]> = digits
            .filter(|digits| digits.len() == 64)
            .and_then(|digits| digits.chunks(2).map(|pair| pair[0] * 16 + pair[1]).collect::<Vec<_>>().try_into().ok());
        bytes.map(Self).ok_or(Invalid::Digest { actual: text })
    }
}

/// The digest of an entry's events. Known before anything is sent, and stored with the entry.
pub fn content(events: &[NewEvent]) -> Digest {
    let mut hash = Content::new(events.len() as u64);
    for event in events {
        hash.event(event.kind.as_str(), event.payload.as_str(), event.metadata.as_str());
    }
    hash.finish()
}

/// The chain value of a partition before its first entry.
pub fn start(ledger: LedgerId, partition: &PartitionId) -> Digest {
    Digest(
        Sha256::new()
            .chain_update(DOMAIN)
            .chain_update(ledger.as_uuid().as_bytes())
            .chain_update(partition.digest().0)
            .finalize()
            .into(),
    )
}

/// The chain value after `entry`, from the one before it. `entry.chain` does not enter.
pub fn next(before: Digest, ledger: LedgerId, partition: &PartitionId, entry: &Entry) -> Digest {
    let id = entry.id.map_or_else(uuid::Uuid::nil, |id: AppendId| id.as_uuid());
    let parts: [&[u8]; 12] = [
        &before.0,
        &[VERSION],
        &ledger.as_uuid().into_bytes(),
        &partition.digest().0,
        &entry.generation.get().to_be_bytes(),
        &entry.first.get().to_be_bytes(),
        &entry.last.get().to_be_bytes(),
        &entry.recorded_at.as_micros().to_be_bytes(),
        &entry.acquisition.as_uuid().into_bytes(),
        &entry.holder.digest().0,
        id.as_bytes(),
        &entry.content.0,
    ];
    // Joined first: each update of a hash costs as much as a third of a block.
    let (mut link, mut at) = ([0; LINK], 0);
    for part in parts {
        link[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    debug_assert_eq!(at, LINK, "the layout fills a link");
    Digest(Sha256::digest(link).into())
}

/// The content digest, fed one event after the other: for `verify`, which does not hold an entry's events together.
pub(crate) struct Content(Sha256);

impl Content {
    pub(crate) fn new(events: u64) -> Self {
        Self(Sha256::new().chain_update(events.to_be_bytes()))
    }

    pub(crate) fn event(&mut self, kind: &str, payload: &str, metadata: &str) {
        for text in [kind, payload, metadata] {
            self.0.update((text.len() as u64).to_be_bytes());
            self.0.update(text.as_bytes());
        }
    }

    pub(crate) fn finish(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;
    use crate::EventKind;

    #[derive(Deserialize)]
    struct Vectors {
        ledger: LedgerId,
        partition: PartitionId,
        start: Digest,
        entries: Vec<Vector>,
    }

    #[derive(Deserialize)]
    struct Vector {
        events: Vec<[String; 3]>,
        entry: Entry,
    }

    /// The vectors hold both what is hashed and the result, as `docs/chain.py` computed it from the layout alone.
    #[test]
    fn the_vectors_of_the_written_layout_are_reproduced() {
        let vectors: Vectors =
            serde_json::from_str(include_str!("../../docs/chain-vectors.json")).expect("the vectors are readable");
        let mut chain = start(vectors.ledger, &vectors.partition);
        assert_eq!(chain, vectors.start);
        assert!(vectors.entries.len() >= 4, "the file has its entries");
        for vector in vectors.entries {
            let events: Vec<NewEvent> = vector
                .events
                .iter()
                .map(|[kind, payload, metadata]| {
                    NewEvent::new(
                        EventKind::stored(kind).expect("a kind"),
                        crate::Json::new(payload.as_str()).expect("JSON"),
                    )
                    .with_metadata(crate::Json::new(metadata.as_str()).expect("JSON"))
                })
                .collect();
            assert_eq!(content(&events), vector.entry.content);
            chain = next(chain, vectors.ledger, &vectors.partition, &vector.entry);
            assert_eq!(chain, vector.entry.chain);
        }
    }

    #[test]
    fn a_digest_reads_what_it_prints_and_nothing_else() {
        let digest = content(&[]);
        assert_eq!(format!("{digest:?}"), digest.to_string(), "it is printed the same everywhere");
        assert_eq!(digest.to_string().len(), 64);
        let text = serde_json::to_string(&digest).expect("text");
        assert_eq!(serde_json::from_str::<Digest>(&text).expect("read back"), digest);
        for wrong in ["", "zz", &"0".repeat(63), &"0".repeat(65), &"é".repeat(64)] {
            assert!(Digest::try_from(wrong.to_owned()).is_err(), "{wrong}");
        }
    }
}
