//! The events of requests: the persisted layout.
//!
//! Each stands alone in its entry, whose id is derived from key and number ([`RequestKey::append_id`]). The metadata is
//! `{"request": key, "change": number}`; the number is 0 for the request and counts its changes from 1. Nothing in them
//! depends on when or by whom they are written, so that the same change is the same content (A4); time, holder and
//! generation are those of the entry.
//!
//! | kind | payload |
//! |---|---|
//! | `request/made` | what is asked for, byte for byte |
//! | `request/sent-again` | `{}` |
//! | `request/unknown` | `{"evidence": {"source": …, "reference": …}}` |
//! | `request/owned` | `{"owner": …, "note": …}` |
//! | `request/settled` | `{"outcome": "succeeded" or "failed", "evidence": {…}}` |

use serde::{Deserialize, Serialize};

use crate::{Append, Event, EventKind, Json, LedgerError, NewEvent};

use super::{Evidence, Outcome, Owner, RequestKey};

/// One event of a request, as it stands in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestEvent {
    /// The request.
    pub key: RequestKey,
    /// 0 for the request itself; its changes count from 1.
    pub number: u32,
    /// What happened.
    pub step: RequestStep,
}

/// What happened to a request. Open: a later version may write more.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestStep {
    /// It was recorded, to be sent after that.
    Made {
        /// What is asked for.
        what: Json,
    },
    /// It was recorded once more, to be sent again under the same key.
    SentAgain,
    /// Nobody could learn what came of it.
    Unknown {
        /// On what that rests.
        evidence: Evidence,
    },
    /// Somebody looks after it.
    Owned {
        /// Who.
        owner: Owner,
    },
    /// It is known what came of it.
    Settled {
        /// What.
        outcome: Outcome,
        /// On what that rests.
        evidence: Evidence,
    },
}

#[derive(Serialize, Deserialize)]
struct Metadata {
    request: RequestKey,
    change: u32,
}

#[derive(Serialize, Deserialize)]
struct UnknownPayload {
    evidence: Evidence,
}

#[derive(Serialize, Deserialize)]
struct SettledPayload {
    outcome: Outcome,
    evidence: Evidence,
}

impl RequestEvent {
    /// What the kinds of all these events start with. An application uses none such; one that does all the same is
    /// not read as a request unless its entry has the derived id.
    pub const PREFIX: &'static str = "request/";

    const MADE: &'static str = "request/made";
    const SENT_AGAIN: &'static str = "request/sent-again";
    const UNKNOWN: &'static str = "request/unknown";
    const OWNED: &'static str = "request/owned";
    const SETTLED: &'static str = "request/settled";

    /// Reads an event of the log; `None` for one that is not of a request.
    ///
    /// # Errors
    ///
    /// [`LedgerError::Corrupt`] with the position, where the entry has an id of version 8 that is not the one derived
    /// from its key, or a payload that no request has: it was edited, or a later version wrote it.
    pub fn read(event: &Event) -> Result<Option<Self>, LedgerError> {
        let kind = event.kind.as_str();
        if !kind.starts_with(Self::PREFIX) {
            return Ok(None);
        }
        let corrupt = |detail: &str| Err(LedgerError::corrupt(None, Some(event.position), detail));
        let id = event.entry.id;
        let named = event.metadata.decode::<Metadata>().ok();
        let Some(Metadata { request: key, change: number }) =
            named.filter(|named| id == Some(named.request.append_id(named.change)))
        else {
            // An application's own id is minted (version 7). Only this module derives ids of version 8.
            let derived = id.is_some_and(|id| id.as_uuid().get_version_num() == 8);
            return if derived { corrupt("the event of a request does not fit its id") } else { Ok(None) };
        };
        match step_of(kind, &event.payload) {
            Some(step) if (number == 0) == matches!(step, RequestStep::Made { .. }) => {
                Ok(Some(Self { key, number, step }))
            }
            _ => corrupt("the event of a request is not one that this version writes"),
        }
    }

    /// The append that writes it.
    pub(super) fn to_append(&self) -> Result<Append, crate::Invalid> {
        let metadata = Json::of(&Metadata { request: self.key.clone(), change: self.number });
        let metadata = metadata.expect("a text and a number in a flat struct are JSON");
        let event = NewEvent::new(self.step.kind(), self.step.payload()).with_metadata(metadata);
        Append::with_id(self.key.append_id(self.number), [event])
    }
}

impl RequestStep {
    fn kind(&self) -> EventKind {
        let kind = match self {
            Self::Made { .. } => RequestEvent::MADE,
            Self::SentAgain => RequestEvent::SENT_AGAIN,
            Self::Unknown { .. } => RequestEvent::UNKNOWN,
            Self::Owned { .. } => RequestEvent::OWNED,
            Self::Settled { .. } => RequestEvent::SETTLED,
        };
        EventKind::new(kind).expect("these constants follow the name rules")
    }

    fn payload(&self) -> Json {
        let payload = match self {
            Self::Made { what } => return what.clone(),
            Self::SentAgain => return Json::empty_object(),
            Self::Unknown { evidence } => Json::of(&UnknownPayload { evidence: evidence.clone() }),
            Self::Owned { owner } => Json::of(owner),
            Self::Settled { outcome, evidence } => {
                Json::of(&SettledPayload { outcome: *outcome, evidence: evidence.clone() })
            }
        };
        payload.expect("texts in small structs are JSON")
    }
}

fn step_of(kind: &str, payload: &Json) -> Option<RequestStep> {
    Some(match kind {
        RequestEvent::MADE => RequestStep::Made { what: payload.clone() },
        RequestEvent::SENT_AGAIN => RequestStep::SentAgain,
        RequestEvent::UNKNOWN => RequestStep::Unknown { evidence: payload.decode::<UnknownPayload>().ok()?.evidence },
        RequestEvent::OWNED => RequestStep::Owned { owner: payload.decode().ok()? },
        RequestEvent::SETTLED => {
            let SettledPayload { outcome, evidence } = payload.decode().ok()?;
            RequestStep::Settled { outcome, evidence }
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{AcquisitionId, AppendId, Digest, Entry, Generation, Holder, Position, Timestamp};

    fn key() -> RequestKey {
        RequestKey::new("invoice-7").expect("a key")
    }

    fn evidence() -> Evidence {
        Evidence::new("webhook", "tx \"42\"").expect("evidence")
    }

    /// The event as a read would return it, under another id where one is given.
    fn stored(append: &Append, id: Option<AppendId>) -> Event {
        let at = Position::FIRST;
        let entry = Entry::new(
            Some(id.unwrap_or(append.id())),
            (at, at),
            Generation::FIRST,
            Holder::new("a").expect("a holder"),
            AcquisitionId::mint(),
            Timestamp::from_micros(0),
            append.content(),
            Digest::new([0; 32]),
        );
        let event = &append.events()[0];
        Event::new(at, event.kind.clone(), event.payload.clone(), event.metadata.clone(), Arc::new(entry))
    }

    /// The layout is persisted: a change here needs a migration.
    #[test]
    fn events_are_written_as_it_is_written_down_and_read_back() {
        let what = Json::new(r#"{"b":1,"a":1e2}"#).expect("JSON");
        let owner = Owner::new("ops", "calls the bank").expect("an owner");
        for (number, step, kind, payload) in [
            (0, RequestStep::Made { what }, "request/made", r#"{"b":1,"a":1e2}"#),
            (1, RequestStep::SentAgain, "request/sent-again", "{}"),
            (
                2,
                RequestStep::Unknown { evidence: evidence() },
                "request/unknown",
                r#"{"evidence":{"source":"webhook","reference":"tx \"42\""}}"#,
            ),
            (3, RequestStep::Owned { owner }, "request/owned", r#"{"owner":"ops","note":"calls the bank"}"#),
            (
                4,
                RequestStep::Settled { outcome: Outcome::Failed, evidence: evidence() },
                "request/settled",
                r#"{"outcome":"failed","evidence":{"source":"webhook","reference":"tx \"42\""}}"#,
            ),
        ] {
            let event = RequestEvent { key: key(), number, step };
            let append = event.to_append().expect("small");
            let written = &append.events()[0];
            assert_eq!((written.kind.as_str(), written.payload.as_str()), (kind, payload));
            assert_eq!(written.metadata.as_str(), format!(r#"{{"request":"invoice-7","change":{number}}}"#));
            assert_eq!(RequestEvent::read(&stored(&append, None)).expect("readable"), Some(event));
        }
    }

    #[test]
    fn event_of_an_application_is_none_and_an_edited_one_is_corrupt() {
        let event = RequestEvent { key: key(), number: 1, step: RequestStep::SentAgain };
        let append = event.to_append().expect("small");
        assert_eq!(RequestEvent::read(&stored(&append, Some(AppendId::mint()))).expect("not ours"), None);
        let other = key().append_id(2);
        assert!(matches!(
            RequestEvent::read(&stored(&append, Some(other))),
            Err(LedgerError::Corrupt { position: Some(Position::FIRST), .. })
        ));
        let mut edited = stored(&append, None);
        edited.kind = EventKind::new("request/settled").expect("a kind");
        assert!(RequestEvent::read(&edited).is_err());
    }
}
