//! Goal: what a writer's and an operator's role call by hand takes no less than what the library sends (S5, A6), so that
//! nobody can store what the library can not read.
//!
//! Method: each argument of each function is spoiled alone, in a call that is answered where it is not.

mod common;

use common::{Place, Wanted, append_as, claim, seconds};
use ledger_core::{AppendId, FencedLedger, FencedLedgerExt, PageSize, Reason, Verification};
use sqlx::Executor;

const NAMES: &[&str] = &["null", "''", "E'a\\nb'", "E'\\u007f'", "U&'\\0085'", "repeat('x', 256)", "repeat('é', 128)"];
/// A name that may be left out.
const MAYBE_NAMES: &[&str] = &["''", "E'a\\nb'", "U&'\\009f'", "repeat('x', 256)"];
const NIL: &str = "'00000000-0000-0000-0000-000000000000'";
const IDS: &[&str] = &["null", NIL];
const NULL: &[&str] = &["null"];
const REMARKS: &[&str] = &["''", "E'a\\nb'", "U&'a\\0085b'", "repeat('x', 2049)", "repeat('é', 1025)"];
const NUMBERS: &[&str] = &["null", "-1"];
const TTLS: &[&str] = &["null", "0", "86400000001"];
const NOTES: &[&str] = &["null", "''", "' '", "U&' \\2003'", "E'a\\nb'", "repeat('x', 256)"];

/// A call that is answered, with what none of its arguments may be instead.
struct ByHand {
    function: &'static str,
    /// Whether it is an operator's.
    operator: bool,
    arguments: &'static [(&'static str, &'static [&'static str])],
}

const BY_HAND: &[ByHand] = &[
    ByHand {
        function: "append",
        operator: false,
        arguments: &[
            ("'p'", NAMES),
            ("4", NUMBERS),
            ("A", IDS),
            ("'a'", NAMES),
            ("B", IDS),
            ("null", &[]),
            ("sha256('x')", &["null", "''", "'\\x00'", "sha512('x')"]),
            (
                "array['k']",
                &[
                    "null",
                    "array[]::text[]",
                    "array[null]::text[]",
                    "array['']",
                    "array['$released']",
                    "array[E'k\\tx']",
                    "array[E'k\\nx']",
                    "array[U&'k\\0080']",
                    "array[repeat('x', 256)]",
                    "array[repeat('é', 128)]",
                    "array['k', 'l']",
                ],
            ),
            (
                "array['1']",
                &["null", "array[]::text[]", "array['1', '2']::text[] || array_fill('1'::text, array[9999])"],
            ),
            ("array['{}']", &["null", "array[]::text[]", "array['{}', '{}']"]),
            ("null", REMARKS),
            ("true", &[]),
            ("null", &[]),
            ("null", &[]),
        ],
    },
    ByHand {
        function: "append",
        operator: false,
        arguments: &[
            ("'p'", &[]),
            ("4", &[]),
            ("A", &[]),
            ("'a'", &[]),
            ("B", &[]),
            ("null", &[]),
            ("sha256('x')", &[]),
            (
                "array['k', repeat('l', 255), repeat('m', 255)]",
                &[
                    "array['k', 'l']",
                    "array['$k', 'l', 'm']",
                    "array['k', 'l', '$claimed']",
                    "array['k', '', 'm']",
                    "array['k', null, 'm']",
                    "array['k', E'l\\nl', 'm']",
                    "array['k', 'l', repeat('m', 256)]",
                ],
            ),
            ("array['1', '2', '3']", &["array['1', '2']"]),
            ("array['{}']", &["array['{}', '{}']"]),
            ("null", &[]),
            ("true", &[]),
            ("null", &[]),
            ("null", &[]),
        ],
    },
    ByHand {
        function: "append_group",
        operator: false,
        arguments: &[
            ("array['p']", &[]),
            ("array[4]::bigint[]", &[]),
            ("array[A]::uuid[]", &[]),
            ("array['a']", &[]),
            ("array[1, 1]", &["array[1]", "array[1, null]", "array[0, 1]", "array[1, 2]", "array[1, 130000000]"]),
            ("array[A, B]::uuid[]", &["array[A, null]::uuid[]", "array[A, nil]::uuid[]", "array[A]::uuid[]"]),
            ("array[null, null]::bigint[]", &["array[null]::bigint[]"]),
            ("array[sha256('x'), sha256('y')]", &["array[sha256('x'), null]", "array[sha256('x'), '\\x00']"]),
            ("array[1, 2]", &["array[0, 3]", "array[1, 1]", "array[-1, 4]", "array[1, null]"]),
            (
                "array['k', repeat('l', 255), 'k']",
                &[
                    "array['$k', 'k', 'k']",
                    "array['k', 'k', '$claimed']",
                    "array['k', '', 'k']",
                    "array['k', E'l\\tl', 'k']",
                    "array['k', E'l\\nl', 'k']",
                    "array['k', 'k', repeat('m', 256)]",
                    "array['k', 'k']",
                ],
            ),
            ("array['1', '2', '3']", &["array['1', '2']"]),
            ("array['{}', '{}', '{}']", &["array['{}']"]),
            ("array[0]::bigint[]", &[]),
            ("null", &[]),
        ],
    },
    ByHand {
        function: "claim",
        operator: false,
        arguments: &[
            ("'q'", NAMES),
            ("A", IDS),
            ("'a'", NAMES),
            ("86400000000", TTLS),
            ("0", NUMBERS),
            ("null", &[]),
            ("true", &[]),
            ("null", &[]),
        ],
    },
    // Of the lease that was just granted, so that nothing but the argument is in the way.
    ByHand {
        function: "renew",
        operator: false,
        arguments: &[
            ("'q'", NULL),
            ("1", NULL),
            ("A", NULL),
            ("'a'", NULL),
            ("null", &["0", "86400000001"]),
            ("true", &[]),
            ("null", &[]),
        ],
    },
    ByHand {
        function: "end_tenure",
        operator: true,
        arguments: &[("'q'", NULL), ("1", NULL), ("B", &[]), ("'why'", NOTES), ("null", &[])],
    },
    ByHand {
        function: "release",
        operator: false,
        arguments: &[("'q'", NULL), ("1", NULL), ("A", NULL), ("'a'", NULL), ("true", &[]), ("null", &[])],
    },
    ByHand {
        function: "advance",
        operator: true,
        arguments: &[
            ("'r'", NAMES),
            ("A", IDS),
            ("'operator'", NAMES),
            ("null", &["0", "-1"]),
            ("'why'", NOTES),
            ("null", &[]),
        ],
    },
    ByHand {
        function: "record_rejection",
        operator: false,
        arguments: &[
            ("'p'", &[]),
            ("3", &[]),
            ("'Append'", &["null", "'Foo'", "'EndTenure'"]),
            ("'WrongHolder'", &["null", "'Bar'", "'PositionConflict'", "'Held'"]),
            ("'z'", NAMES),
            ("3", NUMBERS),
            ("null", REMARKS),
            ("A", IDS),
            ("B", &[NIL]),
            ("'a'", MAYBE_NAMES),
            ("B", &[NIL]),
            ("0", &[]),
            ("7", NUMBERS),
            ("0", NULL),
            ("null", &[]),
        ],
    },
    ByHand {
        function: "record_rejection",
        operator: false,
        arguments: &[
            ("'never'", NAMES),
            ("null", &[]),
            ("'Append'", NULL),
            ("'NeverClaimed'", NULL),
            ("'z'", NULL),
            ("3", NULL),
            ("null", &[]),
            ("A", NULL),
            ("null", &[]),
            ("null", &[]),
            ("null", &[]),
            ("null", &[]),
            ("0", NULL),
            ("0", NULL),
            ("null", &[]),
        ],
    },
    ByHand {
        function: "count_rejections",
        operator: false,
        arguments: &[
            ("array['p']", &[]),
            ("array[3]::bigint[]", &[]),
            ("array['WrongHolder']", &["array[null]::text[]", "array['Bar']", "array['PositionConflict']"]),
            ("array['z']", &["array[null]::text[]", "array['']", "array[E'a\\nb']"]),
            ("array[3]::bigint[]", &["array[null]::bigint[]", "array[-1]::bigint[]"]),
            ("array['']", &["array[E'a\\nb']"]),
            ("array[A]::uuid[]", &["array[null]::uuid[]", "array[nil]::uuid[]"]),
            ("array[B]::uuid[]", &["array[nil]::uuid[]"]),
            ("array['a']", &["array['']", "array[E'a\\nb']"]),
            ("array[B]::uuid[]", &["array[nil]::uuid[]"]),
            ("array[0]::bigint[]", &[]),
            ("array[7]::bigint[]", &["array[null]::bigint[]", "array[-1]::bigint[]"]),
            ("array[0]::bigint[]", &["array[null]::bigint[]"]),
            ("array[1]::bigint[]", &[]),
            ("null", &[]),
        ],
    },
];

impl ByHand {
    /// The call, with another argument in one place.
    fn call(&self, other: Option<(usize, &str)>) -> String {
        let argument = |(nth, (legal, _)): (usize, &(&str, &[&str]))| match other {
            Some((place, other)) if place == nth => other.to_owned(),
            _ => (*legal).to_owned(),
        };
        let arguments: Vec<String> = self.arguments.iter().enumerate().map(argument).collect();
        let mut arguments = arguments.join(", ");
        for (name, id) in [
            ("A", "'00000000-0000-7000-8000-00000000000a'"),
            ("B", "'00000000-0000-7000-8000-00000000000b'"),
            ("nil", NIL),
        ] {
            for (before, after) in [(" ", ","), ("[", ","), ("[", "]"), (" ", "]")] {
                arguments = arguments.replace(&format!("{before}{name}{after}"), &format!("{before}{id}{after}"));
            }
        }
        format!("select * from fenced_ledger.{}({arguments})", self.function)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_called_by_hand_takes_no_less_than_what_the_library_sends() {
    for wanted in Wanted::BOTH {
        let place = Place::new(wanted).await;
        let role = format!("writer_{}", place.schema.name());
        place.run(&format!("create role {role} login")).await;
        place.run(&place.schema.grants(&role)).await;
        let url = place.url.replace("user=postgres", &format!("user={role}"));
        let mut writer = <sqlx::PgConnection as sqlx::Connection>::connect(&url).await.expect("connected");
        let mut operator = place.shell().await;
        let ledger = place.open().await;
        let first = claim(&ledger, "p", "a", seconds(600)).await.lease;
        ledger.release(&first).await.expect("released");
        let second = claim(&ledger, "p", "a", seconds(600)).await.lease;
        ledger.release(&second).await.expect("released");
        claim(&ledger, "p", "a", seconds(600)).await;
        let mut otherwise = Vec::new();
        for by_hand in BY_HAND {
            let shell = if by_hand.operator { &mut operator } else { &mut writer };
            let legal = by_hand.call(None);
            shell.execute(sqlx::raw_sql(place.sql(&legal))).await.unwrap_or_else(|error| panic!("{legal}: {error}"));
            for (nth, (_, forbidden)) in by_hand.arguments.iter().enumerate() {
                for other in *forbidden {
                    let call = by_hand.call(Some((nth, other)));
                    let answer = shell.execute(sqlx::raw_sql(place.sql(&call))).await;
                    let code = answer
                        .map_err(|error| error.as_database_error().and_then(|found| found.code().map(String::from)));
                    if !matches!(&code, Err(Some(code)) if code == "22023") {
                        otherwise.push(format!("{call}: {code:?}"));
                    }
                }
            }
        }
        assert_eq!(otherwise, Vec::<String>::new(), "{wanted}: answered otherwise than by 22023");
        // No budget is opened for a generation that there never was (E3), whatever is said of it.
        let rows = "select count(*) from fenced_ledger.evidence_budget";
        let budgets: i64 = place.value(rows).await;
        for generation in ["0", "-1", "-9223372036854775808", "4"] {
            let record = format!(
                "select fenced_ledger.record_rejection('p', {generation}, 'Append', 'Released', 'a', 1, null, gen_random_uuid(),
                     null, null, null, null, 0, 0, null) is null"
            );
            let ignored: bool = sqlx::query_scalar(place.sql(&record)).fetch_one(&mut writer).await.expect("answered");
            assert!(ignored, "{wanted}: {generation}");
            let counts = format!(
                "select fenced_ledger.count_rejections(array['p'], array[{generation}]::bigint[], array['Released'], array['a'],
                     array[1]::bigint[], array[''], array[gen_random_uuid()], array[null]::uuid[], array[null]::text[],
                     array[null]::uuid[], array[null]::bigint[], array[0]::bigint[], array[0]::bigint[], array[1]::bigint[], null)"
            );
            let refused = writer.execute(sqlx::raw_sql(place.sql(&counts))).await.expect_err(generation);
            assert!(refused.to_string().contains("not refusals of this ledger"), "{wanted}: {generation}: {refused}");
        }
        assert_eq!(place.value::<i64>(rows).await, budgets);
        // Nor can a count that somebody has made up take another's refusal from him.
        let refused = ledger.append(&second, &append_as(AppendId::mint(), "stale")).await.expect_err("stale");
        assert_eq!(refused.rejection().map(|r| r.reason), Some(Reason::StaleGeneration));
        let counts = "select fenced_ledger.count_rejections(array['p', 'p'], array[3, 3]::bigint[],
            array['StaleGeneration', 'StaleGeneration'], array['a', 'a'], array[2, 2]::bigint[], array['', ''],
            array[gen_random_uuid(), gen_random_uuid()], array[null, null]::uuid[], array[null, null]::text[],
            array[null, null]::uuid[], array[null, null]::bigint[], array[0, 0]::bigint[], array[0, 0]::bigint[],
            array[9223372036854775806, 9223372036854775807]::bigint[], null)";
        writer.execute(sqlx::raw_sql(place.sql(counts))).await.expect("counted");
        let refused = ledger.append(&second, &append_as(AppendId::mint(), "stale")).await.expect_err("stale");
        assert_eq!(refused.rejection().map(|r| r.reason), Some(Reason::StaleGeneration), "{refused}");
        // Of a lease what is stored is written, in whatever shape it is presented.
        let content: String =
            place.value("select encode(fenced_ledger.chain_content(array['k'], array['1'], array['{}']), 'hex')").await;
        let shapes = "select lasts from fenced_ledger.append_group(array['p'], array[array[3]]::bigint[],
            array[array[(select x.acquisition from fenced_ledger.partition x where x.name = 'p')]], array[array['a']],
            array[1], array[gen_random_uuid()], array[null]::bigint[], array[decode($1, 'hex')],
            array[1], array['k'], array['1'], array['{}'], array[0]::bigint[], null)";
        let lasts: Option<Vec<Option<i64>>> =
            sqlx::query_scalar(place.sql(shapes)).bind(content).fetch_one(&mut writer).await.expect("answered");
        assert!(lasts.is_some_and(|lasts| lasts[0].is_some()), "{wanted}: it is the lease");
        // All of it can be read, by every door.
        let partitions = ledger.partitions(None, PageSize::MAX).await.expect("read").partitions;
        assert_eq!(partitions.len(), 3);
        for name in partitions {
            ledger.observe(&name).await.expect("read");
            ledger.rejections(Some(&name), None, PageSize::MAX).await.expect("read");
            let verified = ledger.verify(&name, None).await.expect("read");
            assert!(matches!(verified, Verification::Clean { .. }), "{verified:?}");
        }
        assert_eq!(ledger.rejections(None, None, PageSize::MAX).await.expect("read").records.len(), 1);
        drop(writer);
        place.drop().await;
        place.run(&format!("drop role {role}")).await;
    }
}
