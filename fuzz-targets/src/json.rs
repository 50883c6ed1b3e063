//! Payloads (A6): what is accepted is JSON, nested at most 128 deep, kept byte for byte, and can be decoded.

use ledger_core::{Append, EventKind, Invalid, Json, MAX_NESTING, NewEvent};
use serde_json::Value;

pub(crate) const SEEDS: &[&[u8]] = &[
    b"{\"a\": [1, 2.50e-3, true, null], \"a\": \"\\ud800\\u0000\"}",
    b"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]",
    b" \"x\\\\\\\"[{\" ",
    b"1e999999",
    b"{} x",
    b"[1,]",
];

pub(crate) fn run(data: &[u8]) {
    let text = crate::text(data);
    let mut reader = serde_json::Deserializer::from_str(&text);
    reader.disable_recursion_limit();
    // So much nesting is refused below, and would be more than this reader's stack can hold.
    let brackets = text.bytes().filter(|byte| matches!(byte, b'[' | b'{')).count();
    let value = (brackets < 2_000).then(|| <Value as serde::Deserialize>::deserialize(&mut reader));
    let value = value.and_then(Result::ok).filter(|_| reader.end().is_ok());
    match (Json::new(text.as_str()), value) {
        (Ok(json), value) => {
            assert_eq!(json.as_str(), text, "the text is changed");
            if let Some(value) = value {
                assert!(depth(&value) <= MAX_NESTING, "{text}");
                assert_eq!(json.decode::<Value>().expect("it is JSON"), value, "{text}");
            }
            json.decode::<serde::de::IgnoredAny>().expect("what is accepted is read");
            let event = NewEvent::new(EventKind::new("k").expect("a kind"), json.clone()).with_metadata(json.clone());
            drop(Append::new([event]));
            let wrapped = serde_json::to_string(&json).expect("text is JSON");
            assert_eq!(serde_json::from_str::<Json>(&wrapped).expect("it was accepted before"), json);
        }
        (Err(Invalid::Nesting { limit, actual, .. }), value) => {
            assert!(actual > limit, "nesting {actual}, limit {limit}");
            assert!(value.is_none_or(|value| depth(&value) > limit), "{text}");
        }
        (Err(error), Some(_)) => panic!("{text:?} is JSON and refused: {error}"),
        (Err(_), None) => {}
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}
