//! The ledger's own events: `$claimed`, `$released`, `$ended` (G4, C3, C5).

use serde::{Deserialize, Serialize};

use crate::{EventKind, Json, NewEvent, Note, Succession};

/// One of the ledger's own events, as its payload in the log says. Holder, generation, acquisition and time of the
/// tenure that it is about stand in its [`Entry`](crate::Entry).
///
/// The payload of `$claimed` is the [`Succession`] as JSON, that of `$released` is `{}`, that of `$ended` is
/// `{"reason": …}`. Open: a later version may write more kinds.
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

    /// Its kind.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Claimed(_) => Self::CLAIMED,
            Self::Released => Self::RELEASED,
            Self::Ended { .. } => Self::ENDED,
        }
    }

    /// For a backend: the event as it is written.
    pub fn to_new_event(&self) -> NewEvent {
        let kind = EventKind::stored(self.kind()).expect("the ledger's own kinds follow the name rules");
        let payload = match self {
            Self::Claimed(succession) => Json::of(succession),
            Self::Released => return NewEvent::new(kind, Json::empty_object()),
            Self::Ended { reason } => Json::of(&EndedPayload { reason: reason.clone() }),
        };
        NewEvent::new(kind, payload.expect("strings, numbers and UUIDs in a flat struct are JSON"))
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
            _ => return Ok(None),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AcquisitionId, Basis, Generation, Holder, Timestamp, Ttl};

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
        for own in [claimed, OwnEvent::Released, ended] {
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
