//! Goal: a mistake in the SQL is found by the suite. Method: one text of one function is replaced, on a real server, and a
//! named case must fail on it, with words that its message must contain; a family that has nothing to do with it stays
//! green.

mod common;

use common::Wanted;
use common::harness::{Door, Postgres, Replaced};
use conformance_tests::{Outcome, Suite};

/// What is replaced, the case that must fail, and what its violation says.
struct Broken {
    name: &'static str,
    replaced: &'static [Replaced],
    case: &'static str,
    says: &'static str,
}

const ALL: &[Broken] = &[
    Broken {
        name: "the clock of the transaction's start, as `now()` is: read before the lock is won",
        replaced: &[
            Replaced { function: "append", text: "clock_at := fenced_ledger.clock();", by: "" },
            Replaced {
                function: "append",
                text: "for try in 1 .. 4 loop",
                by: "clock_at := fenced_ledger.clock(); for try in 1 .. 4 loop",
            },
        ],
        case: "stw10_expiry_passes_while_waiting_for_the_lock",
        says: "refused as Expired",
    },
    Broken {
        name: "check and write in two steps: the row is read without its lock",
        replaced: &[Replaced { function: "append", text: "for no key update;", by: ";" }],
        case: "app04_tasks_without_expectation_all_land",
        says: "the call succeeds",
    },
    Broken {
        name: "`>` for `>=` at the expiry",
        replaced: &[Replaced { function: "append", text: "judged_at >= s.expires_at", by: "judged_at > s.expires_at" }],
        case: "clk01_boundary_table",
        says: "an append at 0 µs from expiry is refused as Expired",
    },
    Broken {
        name: "the holder is not compared",
        replaced: &[Replaced {
            function: "append",
            text: "when p_holder <> s.holder then 'WrongHolder'",
            by: "when false then 'WrongHolder'",
        }],
        case: "stw03_other_holder_is_refused",
        says: "is refused as WrongHolder",
    },
    Broken {
        name: "a later generation is accepted",
        replaced: &[Replaced {
            function: "append",
            text: "when p_generation > s.generation then 'UnknownGeneration'",
            by: "when false then 'UnknownGeneration'",
        }],
        case: "stw02_generation_ahead_is_refused",
        says: "UnknownGeneration",
    },
    Broken {
        name: "the same id is not looked for",
        replaced: &[Replaced {
            function: "append",
            text: "when s.e_last is not null then case",
            by: "when false then case",
        }],
        case: "idm02_other_content_is_refused",
        says: "refused as AppendIdReused",
    },
    Broken {
        name: "repeats that come together are counted as one",
        replaced: &[Replaced { function: "refuse", text: "r.count + p_count, last_at", by: "r.count + 1, last_at" }],
        case: "evd02_repeats_are_counted_in_one_record",
        says: "the records count 20 refusals",
    },
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_replaced_statement_is_found_by_its_case() {
    let mut wrong = Vec::new();
    for Broken { name, replaced, case, says } in ALL {
        let harness = Postgres { replaced, ..Postgres::shared(Wanted::OLDEST, Door::Own) };
        let suite = Suite::new().full(false).only(|known| known.id == *case || known.family == "partitions");
        for result in suite.run(&harness).await.cases {
            let as_it_should = match &result.outcome {
                Outcome::Failed { violation } if result.id == *case => violation.to_string().contains(says),
                Outcome::Passed => result.id != *case,
                _ => false,
            };
            if !as_it_should {
                wrong.push(format!("{name}, {}: {:?}", result.id, result.outcome));
            }
        }
    }
    assert!(wrong.is_empty(), "not as it should be:\n{}", wrong.join("\n"));
}
