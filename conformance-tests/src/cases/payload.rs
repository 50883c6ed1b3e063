//! Payloads and names: what goes in comes out, byte for byte.

use super::prelude::*;
use ledger_core::{MAX_APPEND_BYTES, MAX_NAME_BYTES, chain};

/// JSON texts that lose something in a store that reads them as values.
const TEXTS: &[&str] = &[
    r#"{"b":1,"a":2,"a":3}"#,
    "{ \"spaced\" :\t[ 1 ,\r\n2 ] } ",
    "1e2",
    "1E+2",
    "-0.0",
    "-0",
    "1e400",
    "-1e-400",
    "0.1000",
    "9007199254740993",
    "18446744073709551616",
    "1234567890123456789012345678901234567890",
    "0.1234567890123456789012345678901234567890",
    r#""\u0000""#,
    r#"{"\u0000":"nul in a key"}"#,
    r#""\ud800""#,
    r#""\udc00\ud800""#,
    r#""\u00e9 \u0065\u0301 \/ \\ \" \b\f\n\r\t""#,
    "\"é e\u{301} \u{feff} \u{200b} \u{2028} 👩‍🚒 \u{10ffff}\"",
    "\"'; DROP TABLE events; -- % _ $1 ?1 :name {} \\\\x00\"",
    "null",
    "true",
    "\"\"",
    "[]",
    "{}",
];

pub(super) async fn pay01_json_text_is_kept_byte_for_byte(cx: Context) -> Verdict {
    let (ledger, other, jobs) = (cx.ledger(), cx.open().await?, partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    let nested = format!("{}{}", "[".repeat(ledger_core::MAX_NESTING), "]".repeat(ledger_core::MAX_NESTING));
    let texts: Vec<&str> = TEXTS.iter().copied().chain([nested.as_str()]).collect();
    let mut events = Vec::new();
    for (payload, metadata) in texts.iter().zip(texts.iter().rev()) {
        events.push(event_of(payload).with_metadata(Json::new(*metadata)?));
    }
    let sent = Append::new(events)?;
    ledger.append(&lease, &sent).await?;
    for handle in [&ledger, &other] {
        let forward: Vec<_> = read_all(&**handle, &jobs).await?.into_iter().skip(1).collect();
        let mut backward = handle.read_back(&jobs, None, PageSize::MAX).await?.events;
        backward.pop();
        backward.reverse();
        for found in [&forward, &backward] {
            equal("the number of events", &found.len(), &texts.len())?;
            for (event, new) in found.iter().zip(sent.events().iter()) {
                equal("the payload", event.payload.as_str(), new.payload.as_str())?;
                equal("the metadata", event.metadata.as_str(), new.metadata.as_str())?;
            }
        }
        ensure(handle.append(&lease, &sent).await?.replayed, "the same texts are the same content", "they are not")?;
    }
    Ok(())
}

pub(super) async fn pay02_one_megabyte(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    for bytes in [7_900, 8_192, 65_536, 1 << 20] {
        // Not one byte again and again, so that a piece that is missing or moved shows.
        let text: String = (0..bytes).map(|n| char::from(b'a' + u8::try_from(n % 23).unwrap_or(0))).collect();
        let sent = Append::new([event(&text)])?;
        let entry = ledger.append(&lease, &sent).await?.entry;
        let found = ledger.read(&jobs, entry.first, PageSize::MAX).await?.events.pop();
        let same = found.as_ref().is_some_and(|event| event.payload == sent.events()[0].payload);
        ensure(
            same,
            &format!("a payload of {bytes} bytes as it was sent"),
            found.map(|event| event.payload.as_str().len()),
        )?;
    }
    Ok(())
}

pub(super) async fn pay03_append_of_exactly_four_mebibytes(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    // The kind has 5 bytes, the metadata 2, the quotes of the payload 2.
    let full = "x".repeat(MAX_APPEND_BYTES - "noted".len() - "{}".len() - 2);
    let sent = Append::new([event(&full)])?;
    equal("the bytes of the append", &sent.bytes(), &MAX_APPEND_BYTES)?;
    let entry = ledger.append(&lease, &sent).await?.entry;
    let found = ledger.read(&jobs, entry.first, PageSize::MAX).await?.events.pop();
    let len = found.map(|event| event.payload.as_str().len());
    equal("the bytes of the payload", &len, &Some(full.len() + 2))?;
    ensure(Append::new([event(&format!("{full}x"))]).is_err(), "one byte more is invalid input", "accepted")?;
    equal("the next position", &ledger.append(&lease, &append("1")).await?.entry.first, &at(3))?;
    Ok(())
}

/// Names that a collation, a pattern, a folding or a statement made of text would mix up.
fn odd_names() -> Vec<String> {
    let mut names: Vec<String> = [
        "a",
        "A",
        "á",
        "a\u{301}",
        "a ",
        " a",
        "a\u{200b}",
        "ａ",
        "order",
        "Order",
        "ORDER",
        "ordér",
        "ß",
        "ss",
        "ı",
        "i",
        "per%cent",
        "per_cent",
        "perXcent",
        "%",
        "_",
        "'",
        "\"",
        "`",
        "it's",
        "a;b--",
        "a/*b",
        "\\",
        "\\x61",
        "$1",
        "?1",
        ":name",
        "{}",
        "a/b",
        "../a",
        "1st",
        "-1",
        "null",
        "NULL",
        "👩‍🚒",
        "👩",
        "\u{10ffff}",
        " ",
        "\u{feff}a",
        "a.b",
        "a:b",
    ]
    .map(str::to_owned)
    .to_vec();
    names.push("x".repeat(MAX_NAME_BYTES));
    names.push(format!("{}é", "x".repeat(MAX_NAME_BYTES - 2)));
    names.push("é".repeat(127));
    names
}

pub(super) async fn pay04_partition_names_are_bytes(cx: Context) -> Verdict {
    let (ledger, other) = (cx.ledger(), cx.open().await?);
    let names = odd_names();
    for name in &names {
        let lease = ledger.claim(&first_claim(&partition(name), "a", long_ttl())).await?.lease;
        ledger.append(&lease, &append(name)).await?;
    }
    for name in &names {
        let jobs = partition(name);
        let events = read_all(&*other, &jobs).await?;
        equal(&format!("the events of partition {name:?}"), &events.len(), &2)?;
        let payload: Option<String> = events.last().and_then(|event| event.payload.decode().ok());
        equal("the payload that was sent to it", &payload.as_ref(), &Some(name))?;
        let told = other.observe(&jobs).await?.tenure.map(|tenure| tenure.lease.partition);
        equal("the name that it is told by", &told, &Some(jobs))?;
    }
    let mut sorted: Vec<PartitionId> = names.iter().map(|name| partition(name)).collect();
    sorted.sort();
    let listed = ledger.partitions(None, PageSize::MAX).await?.partitions;
    equal("the names, in the order of their bytes", &listed, &sorted)?;
    Ok(())
}

pub(super) async fn pay05_holder_names_are_bytes(cx: Context) -> Verdict {
    let ledger = cx.ledger();
    let names: Vec<String> = odd_names().into_iter().filter(|name| Holder::new(name).is_ok()).collect();
    for (name, next) in names.iter().zip(names.iter().cycle().skip(1)) {
        let jobs = partition(&format!("held-{}", names.iter().position(|known| known == name).unwrap_or(0)));
        let lease = claim(&*ledger, &jobs, name, long_ttl()).await?.lease;
        let entry = ledger.append(&lease, &append("1")).await?.entry;
        equal("the holder of the entry", entry.holder.as_str(), name.as_str())?;
        let stored = ledger.observe(&jobs).await?.tenure.map(|tenure| tenure.lease.holder);
        equal("the holder that is stored", &stored, &Some(holder(name)))?;
        let other = edited(&lease, |lease| lease.holder = holder(next));
        let what = format!("an append by {next:?} where {name:?} holds");
        let call = ledger.append(&other, &append("x")).await;
        let refused = expect_rejected(&what, call, Reason::WrongHolder)?;
        equal("the holder that the refusal names", &refused.presented.holder, &Some(holder(next)))?;
        let kept = records(&*ledger, Some(&jobs)).await?.pop().and_then(|record| record.refused);
        equal("the holder that the record names", &kept.map(|kept| kept.holder), &Some(holder(next)))?;
    }
    Ok(())
}

pub(super) async fn pay06_kinds_and_notes_are_bytes(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    let kinds: Vec<EventKind> = odd_names().iter().filter_map(|name| EventKind::new(name).ok()).collect();
    let events: Vec<_> = kinds.iter().map(|kind| NewEvent::new(kind.clone(), Json::empty_object())).collect();
    ledger.append(&lease, &Append::new(events)?).await?;
    let found: Vec<_> = read_all(&*ledger, &jobs).await?.into_iter().skip(1).map(|event| event.kind).collect();
    equal("the kinds", &found, &kinds)?;
    let reason = Note::new("é e\u{301} 'quoted' \"twice\" \\ % 👩‍🚒")?;
    ledger.end_tenure(&jobs, Observation::of(&lease), &reason).await?;
    let vacancy = ledger.observe(&jobs).await?.tenure.and_then(|tenure| tenure.vacancy);
    equal("an operator's reason", &vacancy, &Some(Vacancy::Ended { reason }))?;
    Ok(())
}

pub(super) async fn pay07_stored_content_hashes_to_what_was_sent(cx: Context) -> Verdict {
    let (ledger, jobs) = (cx.ledger(), partition("jobs"));
    let lease = claim(&*ledger, &jobs, "a", long_ttl()).await?.lease;
    for text in TEXTS {
        let sent = Append::new([event_of(text).with_metadata(Json::new(*text)?)])?;
        let entry = ledger.append(&lease, &sent).await?.entry;
        let read = ledger.read(&jobs, entry.first, PageSize::MAX).await?.events;
        let stored: Vec<NewEvent> = read
            .into_iter()
            .map(|event| NewEvent::new(event.kind, event.payload).with_metadata(event.metadata))
            .collect();
        equal("the digest of what is stored", &chain::content(&stored), &sent.content())?;
    }
    Ok(())
}
