//! The ledger's own events and those of requests: read, or told to be edited, and written again as they were.

use std::sync::Arc;

use ledger_core::{
    AcquisitionId, AppendId, Digest, Entry, Event, EventKind, Generation, Holder, Json, OwnEvent, Position,
    RequestEvent, RequestKey, Timestamp,
};
use uuid::Uuid;

pub(crate) const SEEDS: &[&[u8]] = &[
    b"$claimed\n{\"previous\":null,\"basis\":{\"kind\":\"first\"},\"holder\":\"b\",\"generation\":1,\"acquisition\":\"0192a0c0-0000-7000-8000-000000000002\",\"ttl\":3000000,\"expires_at\":8,\"at\":5}\n{}",
    b"$released\n{}\n{}",
    b"$ended\n{\"reason\":\"a disk\"}\n{}",
    b"request/made\n{\"what\":{\"pay\":120}}\n{\"request\":\"invoice-7\",\"change\":0}",
    b"request/settled\n{\"outcome\":\"succeeded\",\"evidence\":{\"source\":\"bank\",\"reference\":\"t-1\"}}\n{\"request\":\"invoice-7\",\"change\":1}",
];

/// Lines: kind, payload, metadata.
pub(crate) fn run(data: &[u8]) {
    let text = crate::text(data);
    let mut lines = text.splitn(3, '\n');
    let (kind, payload) = (lines.next().unwrap_or(""), lines.next().unwrap_or("{}"));
    let metadata = lines.next().unwrap_or("{}");
    let Ok(kind) = EventKind::stored(kind) else { return };
    // As it comes from a store: not checked again.
    let (payload, metadata) = (Json::stored(payload), Json::stored(metadata));
    if let Ok(Some(own)) = OwnEvent::read(&kind, &payload) {
        let written = own.to_new_event();
        let again = OwnEvent::read(&written.kind, &written.payload);
        assert_eq!(again.ok().flatten(), Some(own), "{payload:?}");
    }
    // The id that the metadata would have, and one that no request has.
    let named = metadata.decode::<serde_json::Value>().ok();
    let key = named.as_ref().and_then(|named| named["request"].as_str()).and_then(|key| RequestKey::new(key).ok());
    let change =
        named.as_ref().and_then(|named| named["change"].as_u64()).and_then(|change| u32::try_from(change).ok());
    let derived = key.zip(change).map(|(key, change)| key.append_id(change));
    let minted = AppendId::from_uuid(Uuid::from_u128(7 << 76)).expect("not nil");
    for id in [derived, Some(minted), None] {
        let event = event(id, &kind, &payload, &metadata);
        drop(RequestEvent::read(&event).map(|read| format!("{read:?}")).map_err(|error| error.to_string()));
    }
}

fn event(id: Option<AppendId>, kind: &EventKind, payload: &Json, metadata: &Json) -> Event {
    let (holder, digest) = (Holder::new("a").expect("a name"), Digest::new([0; 32]));
    let acquisition = AcquisitionId::from_uuid(Uuid::from_u128(9)).expect("not nil");
    let place = (Position::FIRST, Position::FIRST);
    let entry =
        Entry::new(id, place, Generation::FIRST, holder, acquisition, Timestamp::from_micros(5), digest, digest);
    Event::new(Position::FIRST, kind.clone(), payload.clone(), metadata.clone(), Arc::new(entry))
}
