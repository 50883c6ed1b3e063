//! Random UUIDs in great numbers: a call of the kernel for each was a sixth of an append in memory.

use std::cell::RefCell;
use std::time::{Duration, SystemTime};

use uuid::{Builder, Uuid};

/// What a thread draws from the operating system at once, in bytes: 64 ids.
const SUPPLY: usize = 512;
/// The bytes of an id that are random, but for the 2 bits of its variant.
const RANDOM: usize = 8;

thread_local! {
    static DRAWN: RefCell<([u8; SUPPLY], usize)> = const { RefCell::new(([0; SUPPLY], SUPPLY)) };
}

/// A UUID of version 7: the time in milliseconds, 12 bits of what is beyond them, and 62 random bits. So ids that are minted
/// one after the other are greater and greater, as a rule: a store finds them side by side.
pub(crate) fn uuid_v7() -> Uuid {
    // Before 1970 the time is 0: what makes an id one of its own are the random bits.
    mixed(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default(), draw())
}

/// The UUID of a time and of random bits, with the time's nanoseconds mixed into them. They are as random as before; and
/// a process that forks has given its supply to two, whose ids would be the same within a millisecond.
fn mixed(now: Duration, mut random: [u8; RANDOM]) -> Uuid {
    for (byte, mixed) in random.iter_mut().rev().zip(now.subsec_nanos().to_le_bytes()) {
        *byte ^= mixed;
    }
    let millis = now.as_secs() * 1_000 + u64::from(now.subsec_millis());
    let fraction = u16::try_from((now.subsec_nanos() % 1_000_000) * 4_096 / 1_000_000).unwrap_or_default();
    let mut bytes = [0; 10];
    bytes[..2].copy_from_slice(&fraction.to_be_bytes());
    bytes[2..].copy_from_slice(&random);
    Builder::from_unix_timestamp_millis(millis, &bytes).into_uuid()
}

fn draw() -> [u8; RANDOM] {
    DRAWN.with_borrow_mut(|(supply, used)| {
        if *used == SUPPLY {
            getrandom::fill(supply).expect("an operating system that has no random bits can start nothing");
            *used = 0;
        }
        let mut drawn = [0; RANDOM];
        drawn.copy_from_slice(&supply[*used..*used + RANDOM]);
        // What was given out is not kept.
        supply[*used..*used + RANDOM].fill(0);
        *used += RANDOM;
        drawn
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_supply_that_a_fork_has_doubled_gives_two_ids_in_one_millisecond() {
        let (random, now) = ([7; RANDOM], Duration::new(1_577_836_800, 123_000_000));
        let ids: HashSet<Uuid> = (0..1_000).map(|nanos| mixed(now + Duration::from_nanos(nanos), random)).collect();
        assert_eq!(ids.len(), 1_000);
        assert!(ids.iter().all(|id| id.as_u128() >> 80 == 1_577_836_800_123), "{ids:?}");
    }

    #[test]
    fn an_id_of_a_later_microsecond_is_greater() {
        let at = |nanos| mixed(Duration::new(1_577_836_800, nanos), [0xff; RANDOM]);
        for nanos in (0..2_000_000).step_by(997) {
            assert!(at(nanos) < at(nanos + 1_000), "{nanos}");
        }
    }

    #[test]
    fn ids_of_many_supplies_and_threads_differ_and_carry_the_time() {
        let before = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_millis();
        let threads: Vec<_> =
            (0..4).map(|_| std::thread::spawn(|| (0..10_000).map(|_| uuid_v7()).collect::<Vec<_>>())).collect();
        let ids: Vec<Uuid> = threads.into_iter().flat_map(|thread| thread.join().expect("it mints")).collect();
        let after = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_millis();
        assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 40_000);
        // Half of the random bits are set, each of them in about half of the ids.
        for bit in 0..62 {
            let set = ids.iter().filter(|id| id.as_u128() >> bit & 1 == 1).count();
            assert!((18_000..22_000).contains(&set), "bit {bit} is set in {set} of 40,000");
        }
        for id in ids {
            assert_eq!((id.get_version_num(), id.get_variant()), (7, uuid::Variant::RFC4122));
            assert!((before..=after).contains(&(id.as_u128() >> 80)), "{id}");
        }
    }
}
