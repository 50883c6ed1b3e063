//! Goal: a mistake in the SQL is found by the suite. Method: one text of one function is replaced, on a real server, and a
//! named case must fail on it, with words that its message must contain; a family that has nothing to do with it stays
//! green. What is wrong in the judgement itself, in any language, is shown on a reference: `conformance-tests/tests/broken`.

mod common;

use common::Wanted;
use common::harness::{Door, Postgres, Replaced};
use conformance_tests::{Case, Outcome, Suite};

/// What is replaced, the case that must fail, and what its violation says.
struct Broken {
    name: &'static str,
    replaced: &'static [Replaced],
    case: &'static str,
    says: &'static str,
    green: &'static str,
}

const ALL: &[Broken] = &[
    Broken {
        name: "the clock of the transaction's start, as `now()` is: read before the lock is won",
        replaced: &[
            Replaced { function: "append", text: "clock_at := fenced_ledger.clock();", by: "" },
            Replaced { function: "append", text: "fenced_ledger.clock() as clock_at", by: "clock_at" },
            Replaced {
                function: "append",
                text: "for try in 1 .. 4 loop",
                by: "clock_at := fenced_ledger.clock(); for try in 1 .. 4 loop",
            },
        ],
        case: "stw10_expiry_passes_while_waiting_for_the_lock",
        says: "refused as Expired",
        green: "partitions",
    },
    Broken {
        name: "one statement that locks and looks at the expiry, and nothing after it: whoever waited for a transaction \
               that changed nothing is not looked at again",
        replaced: &[
            Replaced {
                function: "append",
                text: "and p.vacancy is null and p.recorded_at < p.expires_at",
                by: "and p.vacancy is null and fenced_ledger.clock() < p.expires_at",
            },
            Replaced { function: "append", text: "if judged_at < x.expires_at and not", by: "if not" },
        ],
        case: "stw10_expiry_passes_while_waiting_for_the_lock",
        says: "refused as Expired",
        green: "partitions",
    },
    Broken {
        name: "a renewal by the clock of its statement's start, as `statement_timestamp()` is",
        replaced: &[
            Replaced { function: "renew", text: "clock_at := fenced_ledger.clock();", by: "" },
            Replaced {
                function: "renew",
                text: "for try in 1 .. 4 loop",
                by: "clock_at := fenced_ledger.clock(); for try in 1 .. 4 loop",
            },
        ],
        case: "stw11_renewal_and_claim_are_judged_after_the_wait",
        says: "a renewal that waited past expiry is refused",
        green: "partitions",
    },
    Broken {
        name: "a claim is told that the partition is held by what it read before the lock",
        replaced: &[Replaced {
            function: "claim",
            text: "or verdict = 'AcquisitionSpent'",
            by: "or verdict in ('AcquisitionSpent', 'Held')",
        }],
        case: "stw11_renewal_and_claim_are_judged_after_the_wait",
        says: "Held",
        green: "partitions",
    },
    Broken {
        name: "positions from a sequence, which what is refused or rolled back does not give back",
        replaced: &[
            Replaced {
                function: "append",
                text: "CREATE OR REPLACE FUNCTION",
                by: "create sequence fenced_ledger.positions; CREATE OR REPLACE FUNCTION",
            },
            Replaced {
                function: "append",
                text: "for try in 1 .. 4 loop",
                by: "perform nextval('fenced_ledger.positions'); for try in 1 .. 4 loop",
            },
            Replaced {
                function: "append",
                text: "perform 1 from fenced_ledger.log l where l.partition + 0 = x.id",
                by: "t.position := greatest(t.position, currval('fenced_ledger.positions'));
                     perform 1 from fenced_ledger.log l where l.partition + 0 = x.id",
            },
        ],
        case: "app01_positions_have_no_gap",
        says: "right after the ones before",
        green: "renewal",
    },
    Broken {
        name: "check and write in two steps: the row is read without its lock",
        replaced: &[Replaced { function: "append", text: "for no key update;", by: ";" }],
        case: "app04_tasks_without_expectation_all_land",
        says: "the call succeeds",
        green: "partitions",
    },
    Broken {
        name: "a group writes the second of a partition one position further on",
        replaced: &[Replaced {
            function: "append_group",
            text: "heads[m.slot] + coalesce(uptos[m.nth], m.nth) as last",
            by: "heads[m.slot] + coalesce(uptos[m.nth], m.nth) + case when m.nth > 1 then 1 else 0 end as last",
        }],
        case: "app04_tasks_without_expectation_all_land",
        says: "position",
        green: "partitions",
    },
    Broken {
        name: "`>` for `>=` at the expiry",
        replaced: &[Replaced { function: "append", text: "judged_at >= s.expires_at", by: "judged_at > s.expires_at" }],
        case: "clk01_boundary_table",
        says: "an append at 0 µs from expiry is refused as Expired",
        green: "partitions",
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
        green: "partitions",
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
        green: "partitions",
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
        green: "partitions",
    },
    Broken {
        name: "repeats are not counted",
        replaced: &[Replaced { function: "refuse", text: "least(p_count, 9223372036854775807 - r.count)", by: "0" }],
        case: "evd02_repeats_are_counted_in_one_record",
        says: "the records count 20 refusals",
        green: "partitions",
    },
    Broken {
        name: "repeats that come together are counted as one",
        replaced: &[Replaced { function: "refuse", text: "least(p_count, 9223372036854775807 - r.count)", by: "1" }],
        case: "evd10_zombies_in_a_loop_are_counted_exactly",
        says: "the records count 2000 refusals",
        green: "partitions",
    },
];

/// Where calls wait for each other, the order in which they get the lock is left to the server: of so many runs, one must
/// show the mistake.
const RUNS: usize = 5;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_replaced_statement_is_found_by_its_case() {
    let mut wrong = Vec::new();
    for Broken { name, replaced, case, says, green } in ALL {
        let harness = Postgres { replaced, ..Postgres::shared(Wanted::OLDEST, Door::Own) };
        let mut passed = 0;
        while passed < RUNS {
            // What is to stay green is asked once.
            let asked = |known: &Case| known.id == *case || (passed == 0 && known.family == *green);
            let results = Suite::new().full(false).only(asked).run(&harness).await.cases;
            let (named, others): (Vec<_>, Vec<_>) = results.into_iter().partition(|result| result.id == *case);
            for result in others.iter().filter(|result| result.outcome != Outcome::Passed) {
                wrong.push(format!("{name}, {}: {:?}", result.id, result.outcome));
            }
            match named.first().map(|result| &result.outcome) {
                Some(Outcome::Failed { violation }) if violation.to_string().contains(says) => break,
                Some(Outcome::Passed) => passed += 1,
                other => {
                    wrong.push(format!("{name}, {case}: {other:?}"));
                    break;
                }
            }
        }
        if passed == RUNS {
            wrong.push(format!("{name} is not found by {case}"));
        }
    }
    assert!(wrong.is_empty(), "not as it should be:\n{}", wrong.join("\n"));
}
