//! Operations from a seed.

use fastrand::Rng;

use super::EPISODE;
use super::operation::{Above, AcquisitionPick, Change, ClockMove, IdPick, Observed, Operation, Size, Token, Way};

/// So many operations of a seed, the same ones each time.
pub fn generate(seed: u64, operations: usize) -> Vec<Operation> {
    let mut rng = Rng::with_seed(seed);
    (0..operations)
        .map(|nth| {
            let episode = u32::try_from(nth / EPISODE).unwrap_or(u32::MAX);
            one(&mut rng, episode)
        })
        .collect()
}

fn one(rng: &mut Rng, episode: u32) -> Operation {
    // Mostly one partition, so that its history is long.
    let partition = (episode, u8::from(rng.u8(0..5) == 0));
    match rng.u8(0..100) {
        0..16 => Operation::Claim {
            partition,
            holder: rng.u8(0..3),
            ttl: ttl(rng),
            observed: match rng.u8(0..10) {
                0 => Observed::Never,
                1 => Observed::Generation(-1),
                2 => Observed::Generation(1),
                3 => Observed::Acquisition,
                _ => Observed::Current,
            },
            acquisition: acquisition(rng),
        },
        16..24 => Operation::Renew { token: token(rng), ttl: rng.bool().then(|| ttl(rng)) },
        24..30 => Operation::Release { token: token(rng) },
        30..32 => Operation::EndTenure {
            partition,
            observed: if rng.bool() { Observed::Generation(-1) } else { Observed::Current },
        },
        32..34 => Operation::Advance {
            partition,
            operator: rng.u8(0..3),
            above: match rng.u8(0..8) {
                0 => Above::LastButOne,
                1..4 => Above::None,
                _ => Above::Beside(rng.i8(-1..6)),
            },
            acquisition: acquisition(rng),
        },
        34 => Operation::AdvanceAgain { back: rng.u8(0..2), other: rng.u8(0..4) == 0 },
        35..60 => Operation::Append {
            token: token(rng),
            id: if rng.u8(0..4) == 0 { IdPick::Known(rng.u8(..)) } else { IdPick::Fresh(rng.u128(1..)) },
            other_content: rng.u8(0..6) == 0,
            events: rng.u8(1..4),
            expected: match rng.u8(0..8) {
                0 => Some(-1),
                1 => Some(1),
                2 | 3 => Some(0),
                _ => None,
            },
            remark: (rng.u8(0..5) == 0).then(|| rng.u8(0..2)),
        },
        60..65 => Operation::Fate { partition, id: rng.u8(..), generation: rng.i8(-2..2) },
        65..69 => Operation::Observe { partition },
        69..76 => Operation::Read {
            partition,
            from: rng.u8(0..12),
            way: match rng.u8(0..8) {
                0..3 => Way::Forward,
                3 => Way::Backward,
                4 | 5 => Way::BackwardFromTheHead,
                _ => Way::OfKind(rng.u8(0..2)),
            },
            size: match rng.u8(0..4) {
                0 => Size::Items(rng.u8(1..5)),
                1 => Size::Bytes(rng.u8(1..100)),
                _ => Size::Max,
            },
        },
        76 => Operation::Partitions { after: rng.bool().then_some(partition), limit: rng.u8(1..5) },
        77..79 => Operation::Records { partition },
        // Half of the episodes are of one handle: there, a record's last refusal is the last one for every store.
        79..83 if episode.is_multiple_of(2) => Operation::OtherHandle,
        79..83 => Operation::Observe { partition },
        83..98 => Operation::Clock(match rng.u8(0..10) {
            0..5 => ClockMove::Expiry { partition, by: rng.i8(-1..2) },
            5..8 => ClockMove::By(rng.i32(0..3_000_000)),
            8 => ClockMove::By(rng.i32(0..2)),
            _ => ClockMove::By(-rng.i32(0..6_000_000)),
        }),
        _ => Operation::Restart,
    }
}

fn acquisition(rng: &mut Rng) -> AcquisitionPick {
    if rng.u8(0..5) == 0 { AcquisitionPick::Known(rng.u8(..)) } else { AcquisitionPick::Fresh(rng.u128(1..)) }
}

fn token(rng: &mut Rng) -> Token {
    let change = match rng.u8(0..17) {
        16 => Change::Ledger,
        0 | 1 => Change::Holder(rng.u8(0..3)),
        2 => Change::Generation(-1),
        3 => Change::Generation(1),
        4 => Change::Acquisition(None),
        5 => Change::Acquisition(Some(rng.u8(..))),
        6 => Change::Partition,
        7 => Change::Expiry,
        _ => Change::None,
    };
    // Mostly the newest lease, now and then an old one.
    let back = if rng.u8(0..3) == 0 { rng.u8(0..4) } else { 0 };
    Token { back, change }
}

fn ttl(rng: &mut Rng) -> u32 {
    match rng.u8(0..6) {
        0 => 1,
        1 => 1_000_000,
        _ => 5_000_000,
    }
}
