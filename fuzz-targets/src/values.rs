//! Public types through serde: what is read is written and read again as the same value.

use ledger_core::{
    AcquisitionId, Advance, AppendId, Basis, Claim, Digest, Evidence, Expected, Generation, Judged, Lease, LedgerId,
    NewEvent, Observation, Owner, Position, Predecessor, Reason, RecordSlot, Revision, Succession, Timestamp, Ttl,
    Vacancy,
};
use serde::{Serialize, de::DeserializeOwned};

pub(crate) const SEEDS: &[&[u8]] = &[
    br#"{"ledger":"00000000-0000-0000-0000-000000000007","partition":"p","holder":"a","generation":1,"acquisition":"0192a0c0-0000-7000-8000-000000000001","ttl":3000000,"expires_at":1577836800000000}"#,
    br#"{"partition":"p","holder":"a","acquisition":"0192a0c0-0000-7000-8000-000000000001","ttl":1,"observed":{"Tenure":{"generation":9223372036854775807,"acquisition":"0192a0c0-0000-7000-8000-000000000001"}}}"#,
    br#"{"previous":{"holder":"a","generation":1,"acquisition":"0192a0c0-0000-7000-8000-000000000001","last_position":3},"basis":{"kind":"expired","expires_at":5,"judged_at":5},"holder":"b","generation":2,"acquisition":"0192a0c0-0000-7000-8000-000000000002","ttl":3000000,"expires_at":8,"at":5}"#,
    br#"{"kind":"ended","reason":"a disk"}"#,
    br#"{"time":5,"revision":2,"clock_behind":true}"#,
    br#"{"Ended":{"reason":"x"}}"#,
    br#""0000000000000000000000000000000000000000000000000000000000000000""#,
    br#""NeverClaimed""#,
    br#"{"Position":1}"#,
    br#"{"generation":null,"number":257}"#,
    br#"{"kind":"k","payload":"{}","metadata":"{}"}"#,
    br#"{"source":"bank","reference":"t-1"}"#,
    b"-1",
];

pub(crate) fn run(data: &[u8]) {
    let text = crate::text(data);
    check::<Lease>(&text);
    check::<Claim>(&text);
    check::<Advance>(&text);
    check::<Succession>(&text);
    check::<Predecessor>(&text);
    check::<Basis>(&text);
    check::<Observation>(&text);
    check::<Judged>(&text);
    check::<Vacancy>(&text);
    check::<NewEvent>(&text);
    check::<Expected>(&text);
    check::<Reason>(&text);
    check::<RecordSlot>(&text);
    check::<Evidence>(&text);
    check::<Owner>(&text);
    check::<Digest>(&text);
    check::<LedgerId>(&text);
    check::<AcquisitionId>(&text);
    check::<AppendId>(&text);
    check::<Generation>(&text);
    check::<Position>(&text);
    check::<Revision>(&text);
    check::<Timestamp>(&text);
    check::<Ttl>(&text);
    // Printing never fails, whatever the value.
    drop(serde_json::from_str::<Timestamp>(&text).map(|time| time.to_string()));
}

fn check<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(text: &str) {
    let Ok(value) = serde_json::from_str::<T>(text) else { return };
    let written = serde_json::to_string(&value).expect("what was read can be written");
    let again: T = serde_json::from_str(&written).expect("what was written can be read");
    assert_eq!(again, value, "{text} as {written}");
}
