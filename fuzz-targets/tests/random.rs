//! Every target with random inputs, each from the number of the run: what coverage has found is in `fuzz/`.

use fuzz_targets::{Judged, TARGETS, Target, judge_file};

#[test]
fn nothing_is_wrong_with_random_inputs() {
    let full = std::env::var_os("FENCED_LEDGER_FULL").is_some_and(|value| !value.is_empty() && value != "0");
    for target in TARGETS {
        let inputs = match (target.name, full) {
            // An input is a file that is opened.
            ("file", false) => 20,
            ("file", true) => 300,
            (_, false) => 500,
            (_, true) => 10_000,
        };
        target.seeds.iter().for_each(|seed| try_one(target, seed, "a seed"));
        for run in 0..inputs {
            let input = mutate(target, run);
            try_one(target, &input, &format!("run {run}"));
        }
    }
}

#[test]
fn edited_files_are_refused_found_to_be_broken_or_clean() {
    assert_eq!(judge_file(b""), Judged::Clean, "a file that nobody has edited");
    assert_eq!(judge_file(&[0, 0, 0, 16, 0]), Judged::Refused, "a file without its header");
    let broken = (1..=255).any(|part| judge_file(&[part, 0, 0, 64, b'7']) == Judged::Broken);
    assert!(broken, "no edit of 64 bytes was found by `verify`");
}

fn try_one(target: Target, input: &[u8], what: &str) {
    let tried = std::panic::catch_unwind(|| (target.run)(input));
    assert!(tried.is_ok(), "target {} failed on {what}: {:?}", target.name, String::from_utf8_lossy(input));
}

/// A seed with some changes, two seeds joined, or noise.
fn mutate(target: Target, run: u64) -> Vec<u8> {
    let mut random = fastrand::Rng::with_seed(run);
    let mut input = random.choice(target.seeds).map_or_else(Vec::new, |seed| seed.to_vec());
    for _ in 0..random.usize(1..6) {
        let at = random.usize(..=input.len());
        match random.u8(..6) {
            0 => input.insert(at, random.u8(..)),
            1 if at < input.len() => input[at] = random.u8(..),
            2 if at < input.len() => drop(input.remove(at)),
            3 => input.truncate(at),
            4 => input.extend(std::iter::repeat_with(|| random.u8(..)).take(8)),
            _ => {
                let other = random.choice(target.seeds).copied().unwrap_or_default();
                input.splice(at.., other.iter().copied().skip(at / 2));
            }
        }
    }
    input
}
