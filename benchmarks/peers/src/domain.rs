//! What the peers want to know of an application: an event with one text, and an aggregate that ignores it.

use cqrs_es::event_sink::EventSink;
use cqrs_es::{Aggregate, DomainEvent};
use disintegrate::{DomainIdInfo, DomainIdSet, EventInfo, EventSchema, IdentifierType, domain_ids, ident};
use serde::{Deserialize, Serialize};

/// The payload of the project's own benchmarks.
pub(crate) const PAYLOAD: &str = r#"{"job":"nightly-import","source":"eu-west-1","rows":12840,"failed":3,"seconds":41.7,"state":"done","checksum":"9f2c51aa"}"#;

/// A job's result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Done {
    pub(crate) stream: String,
    pub(crate) result: String,
}

impl disintegrate::Event for Done {
    const SCHEMA: EventSchema = EventSchema {
        events: &["Done"],
        events_info: &[&EventInfo { name: "Done", domain_ids: &[&ident!(#stream)] }],
        domain_ids: &[&DomainIdInfo { ident: ident!(#stream), type_info: IdentifierType::String }],
    };

    fn domain_ids(&self) -> DomainIdSet {
        domain_ids! { stream: self.stream }
    }

    fn name(&self) -> &'static str {
        "Done"
    }
}

impl DomainEvent for Done {
    fn event_type(&self) -> String {
        "Done".to_owned()
    }

    fn event_version(&self) -> String {
        "1".to_owned()
    }
}

/// No state: events are written below it.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Job;

impl Aggregate for Job {
    const TYPE: &'static str = "job";
    type Command = ();
    type Event = Done;
    type Error = std::convert::Infallible;
    type Services = ();

    async fn handle(&mut self, (): (), (): &(), _: &EventSink<Self>) -> Result<(), Self::Error> {
        Ok(())
    }

    fn apply(&mut self, _: Done) {}
}
