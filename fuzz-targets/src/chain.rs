//! The chain's input (I1): computed a second time, by the letter of the layout.

use ledger_core::{
    AcquisitionId, AppendId, Digest, Entry, EventKind, Generation, Holder, Json, LedgerId, NewEvent, PartitionId,
    Position, Timestamp, chain,
};
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

pub(crate) const SEEDS: &[&[u8]] =
    &[&[7; 120], b"\xff\xff\xff\xff\xff\xff\xff\xffpartition\nholder\nkind\nand more", &[0; 64]];

pub(crate) fn run(data: &[u8]) {
    let mut bytes = data.iter().copied().chain(std::iter::repeat(1));
    let mut take = |count: usize| bytes.by_ref().take(count).collect::<Vec<u8>>();
    let number = |bytes: Vec<u8>| i64::from_be_bytes(bytes.try_into().expect("eight were taken"));
    let uuid = |bytes: Vec<u8>| Uuid::from_slice(&bytes).expect("sixteen were taken");
    let (generation, first, time) = (number(take(8)), number(take(8)), number(take(8)));
    let (ledger, acquisition, id, before) = (uuid(take(16)), uuid(take(16)), uuid(take(16)), take(32));
    let count = usize::from(take(1)[0] % 4);
    let lines: Vec<String> = crate::text(&take(40)).lines().map(str::to_owned).collect();
    let line = |nth: usize| lines.get(nth).map_or("x", String::as_str);
    let (Ok(partition), Ok(holder)) = (PartitionId::new(line(0)), Holder::new(line(1))) else { return };
    let (Ok(kind), Ok(generation)) = (EventKind::new(line(2)), Generation::new(generation)) else { return };
    let (Ok(first), Ok(ledger)) = (Position::new(first), LedgerId::from_uuid(ledger)) else { return };
    let Some(last) = first.checked_add(2) else { return };
    let Ok(acquisition) = AcquisitionId::from_uuid(acquisition) else { return };
    let payload = Json::of(line(3)).expect("text is JSON");
    let events = vec![NewEvent::new(kind, payload).with_metadata(Json::of(&lines).expect("texts are JSON")); count];
    let content = chain::content(&events);
    let mut input = (count as u64).to_be_bytes().to_vec();
    for event in &events {
        for part in [event.kind.as_str(), event.payload.as_str(), event.metadata.as_str()] {
            input.extend((part.len() as u64).to_be_bytes());
            input.extend(part.as_bytes());
        }
    }
    assert_eq!(content.as_bytes(), &hash(&input), "content of {events:?}");

    let start = [b"fenced-ledger/chain/1", &ledger.as_uuid().as_bytes()[..], &hash(line(0).as_bytes())].concat();
    assert_eq!(chain::start(ledger, &partition).as_bytes(), &hash(&start), "first value of {partition}");

    let before = Digest::new(before.try_into().expect("thirty-two were taken"));
    let append = AppendId::from_uuid(id).ok();
    let at = Timestamp::from_micros(time);
    let entry = Entry::new(append, (first, last), generation, holder, acquisition, at, content, before);
    let input = [
        &before.as_bytes()[..],
        &[1],
        ledger.as_uuid().as_bytes(),
        &hash(line(0).as_bytes()),
        &generation.get().to_be_bytes(),
        &first.get().to_be_bytes(),
        &last.get().to_be_bytes(),
        &time.to_be_bytes(),
        acquisition.as_uuid().as_bytes(),
        &hash(line(1).as_bytes()),
        id.as_bytes(),
        content.as_bytes(),
    ]
    .concat();
    assert_eq!(chain::next(before, ledger, &partition, &entry).as_bytes(), &hash(&input), "{entry:?}");
}

fn hash(input: &[u8]) -> [u8; 32] {
    Sha256::digest(input).into()
}
