//! Names and short texts: accepted by just the rule that is written down, and kept byte for byte.

use ledger_core::{EventKind, Holder, Note, PartitionId, Remark, RequestKey};

pub(crate) const SEEDS: &[&[u8]] =
    &[b"jobs/7", b" ", b"", "\u{e1}a\u{301}".as_bytes(), b"$claimed", b"a\x00b", &[b'x'; 255], &[b'x'; 256]];

pub(crate) fn run(data: &[u8]) {
    let text = crate::text(data);
    let has_no_control = !text.chars().any(char::is_control);
    let is_name = !text.is_empty() && text.len() <= 255 && has_no_control;
    let is_said = is_name && !text.trim().is_empty();
    check::<PartitionId>(&text, is_name);
    check::<RequestKey>(&text, is_name);
    check::<Holder>(&text, is_said);
    check::<Note>(&text, is_said);
    check::<EventKind>(&text, is_name && !text.starts_with('$'));
    check::<Remark>(&text, !text.is_empty() && text.len() <= 2_048 && has_no_control);
}

fn check<T>(text: &str, is_valid: bool)
where
    T: std::str::FromStr + AsRef<str> + serde::Serialize + serde::de::DeserializeOwned + PartialEq,
{
    let what = std::any::type_name::<T>();
    let json = serde_json::to_string(text).expect("text is JSON");
    let (parsed, read) = (text.parse::<T>(), serde_json::from_str::<T>(&json));
    assert_eq!(parsed.is_ok(), is_valid, "{what} of {text:?}");
    assert_eq!(read.is_ok(), is_valid, "{what} of {text:?}, through serde");
    if let (Ok(parsed), Ok(read)) = (parsed, read) {
        assert!(parsed.as_ref() == text && parsed == read, "{what} of {text:?} is changed");
        assert_eq!(serde_json::to_string(&parsed).expect("a name is JSON"), json, "{what} of {text:?}");
    }
}
