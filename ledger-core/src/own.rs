//! The ledger's own events: `$claimed`, `$released`, `$ended`, `$advanced` (G4, C3, C5, I4).

use serde::{Deserialize, Serialize};

use crate::{AdvanceRecord, EventKind, Json, NewEvent, Note, Succession};

/// One of the ledger's own events, as its payload in the log says. Holder, generation, acquisition and time of the
/// tenure that it is about stand in its [`Entry`](crate::Entry).
///
/// The payload of `$claimed` is the [`Succession`] as JSON, that of `$released` is `{}`, that of `$ended` is
/// `{"reason": …}`, that of `$advanced` the [`AdvanceRecord`] as JSON. Open: a later version may write more kinds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OwnEvent {
    /// A claim was granted.
    Claimed(Succession),
    /// The holder released the partition.
    Released,
    /// An operator ended the tenure.
    Ended {
        /// The operator's reason.
        reason: Note,
    },
    /// An operator let the partition go on above every generation ever seen.
    Advanced(AdvanceRecord),
}

#[derive(Serialize, Deserialize)]
struct EndedPayload {
    reason: Note,
}

impl OwnEvent {
    /// The kind of `$claimed` events.
    pub const CLAIMED: &'static str = "$claimed";
    /// The kind of `$released` events.
    pub const RELEASED: &'static str = "$released";
    /// The kind of `$ended` events.
    pub const ENDED: &'static str = "$ended";
    /// The kind of `$advanced` events.
    pub const ADVANCED: &'static str = "$advanced";

    /// Its kind.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Claimed(_) => Self::CLAIMED,
            Self::Released => Self::RELEASED,
            Self::Ended { .. } => Self::ENDED,
            Self::Advanced(_) => Self::ADVANCED,
        }
    }

    /// For a backend: the event as it is written.
    pub fn to_new_event(&self) -> NewEvent {
        let kind = EventKind::stored(self.kind()).expect("the ledger's own kinds follow the name rules");
        let payload = match self {
            Self::Claimed(succession) => Json::of(succession),
            Self::Released => return NewEvent::new(kind, Json::empty_object()),
            Self::Ended { reason } => Json::of(&EndedPayload { reason: reason.clone() }),
            Self::Advanced(record) => Json::of(record),
        };
        NewEvent::new(kind, payload.expect("strings, numbers and UUIDs in flat structs are JSON"))
    }

    /// Reads one of the ledger's own events; `None` for an application's event or a kind of a later version.
    ///
    /// # Errors
    ///
    /// serde_json's, where the payload is not what the ledger writes: it was edited.
    pub fn read(kind: &EventKind, payload: &Json) -> Result<Option<Self>, serde_json::Error> {
        Ok(Some(match kind.as_str() {
            Self::CLAIMED => Self::Claimed(payload.decode()?),
            Self::RELEASED => Self::Released,
            Self::ENDED => Self::Ended { reason: payload.decode::<EndedPayload>()?.reason },
            Self::ADVANCED => Self::Advanced(payload.decode()?),
            _ => return Ok(None),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        AcquisitionId, Advance, Basis, Digest, Generation, Holder, Mark, PartitionId, Position, StoredLease, Timestamp,
        Ttl,
    };

    #[test]
    fn own_events_are_read_as_they_were_written() {
        let claimed = OwnEvent::Claimed(Succession {
            previous: None,
            basis: Basis::Expired { expires_at: Timestamp::from_micros(5), judged_at: Timestamp::from_micros(6) },
            holder: Holder::new("a \"b\"").expect("a holder"),
            generation: Generation::FIRST,
            acquisition: AcquisitionId::mint(),
            ttl: Ttl::default(),
            expires_at: Timestamp::from_micros(9),
            at: Timestamp::from_micros(6),
        });
        let ended = OwnEvent::Ended { reason: Note::new("clock had jumped").expect("a note") };
        let lease = StoredLease::new(
            (Generation::FIRST, Holder::new("a").expect("a holder"), AcquisitionId::mint()),
            (Ttl::default(), Timestamp::from_micros(9)),
            None,
            0,
            Timestamp::from_micros(6),
            (Position::FIRST, Digest::new([7; 32])),
        );
        let advance = |above| {
            let (partition, operator) = (PartitionId::new("p").expect("a name"), Holder::new("o").expect("a holder"));
            Advance::new(partition, operator, above, Note::new("restored").expect("a note"))
        };
        let mark = Mark::new(Generation::FIRST, Position::FIRST, Digest::new([7; 32]));
        let advanced = AdvanceRecord::new(&advance(Some(Generation::MAX)), Some((&lease).into()), Some(mark));
        let never_claimed = AdvanceRecord::new(&advance(None), None, None);
        let text = OwnEvent::Advanced(never_claimed.clone()).to_new_event().payload;
        assert_eq!(text.as_str(), r#"{"above":null,"lease":null,"log":null,"reason":"restored"}"#);
        let advanced = [OwnEvent::Advanced(advanced), OwnEvent::Advanced(never_claimed)];
        for own in [claimed, OwnEvent::Released, ended].into_iter().chain(advanced) {
            let written = own.to_new_event();
            assert!(written.kind.is_own());
            assert_eq!(OwnEvent::read(&written.kind, &written.payload).expect("readable"), Some(own));
        }
        let other = EventKind::new("claimed").expect("a kind");
        assert_eq!(OwnEvent::read(&other, &Json::empty_object()).expect("not looked at"), None);
        let claimed = EventKind::stored(OwnEvent::CLAIMED).expect("a kind");
        assert!(OwnEvent::read(&claimed, &Json::empty_object()).is_err(), "an edited payload is an error");
    }
}
