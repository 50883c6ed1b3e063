//! Numbers of a partition: generations, positions, revisions.

use crate::Invalid;

macro_rules! counting_newtype {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(try_from = "i64", into = "i64")]
        pub struct $name(i64);

        impl $name {
            /// The first: 1.
            pub const FIRST: Self = Self(1);
            /// The ceiling: `i64::MAX`.
            pub const MAX: Self = Self(i64::MAX);

            #[doc = concat!("Checks that `number` is from 1 to `i64::MAX`.\n\n# Errors\n\n[`Invalid::OutOfRange`] names the range and the value.")]
            pub fn new(number: i64) -> Result<Self, Invalid> {
                if number >= 1 {
                    Ok(Self(number))
                } else {
                    Err(Invalid::OutOfRange { what: $what, min: 1, max: i128::from(i64::MAX), actual: i128::from(number) })
                }
            }

            /// The number.
            pub fn get(self) -> i64 {
                self.0
            }

            /// The one after this, or `None` at the ceiling.
            pub fn next(self) -> Option<Self> {
                self.checked_add(1)
            }

            /// The one `count` further on, or `None` past the ceiling.
            pub fn checked_add(self, count: u32) -> Option<Self> {
                self.0.checked_add(i64::from(count)).map(Self)
            }
        }

        impl TryFrom<i64> for $name {
            type Error = Invalid;
            fn try_from(number: i64) -> Result<Self, Invalid> {
                Self::new(number)
            }
        }

        impl From<$name> for i64 {
            fn from(number: $name) -> i64 {
                number.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

counting_newtype!(
    /// The fencing token: the claims of a partition are numbered 1, 2, 3 … (G1 to G3).
    ///
    /// Minted by the store alone and never used twice.
    Generation,
    "generation"
);

counting_newtype!(
    /// Where an event stands in its partition: 1, 2, 3 … without a gap, in commit order (A2).
    ///
    /// The ledger's own events (`$claimed`, `$released`, `$ended`) take positions too: the first claim
    /// of a partition stands at 1.
    Position,
    "position"
);

/// A number that each granted claim, renewal, release, operator step and append of a partition moves on (J2).
///
/// It orders everything that was ever granted, renewals included. 0 means that nothing was granted yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct Revision(u64);

impl Revision {
    /// A revision as a store keeps it.
    pub fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl std::fmt::Display for Revision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_start_at_one_and_stop_at_the_ceiling() {
        let refused = Invalid::OutOfRange { what: "generation", min: 1, max: i128::from(i64::MAX), actual: 0 };
        assert_eq!(Generation::new(0), Err(refused));
        assert!(Position::new(-1).is_err());
        assert!(serde_json::from_str::<Position>("0").is_err());
        assert_eq!(Generation::FIRST.next().map(Generation::get), Some(2));
        assert_eq!(Generation::MAX.next(), None);
        assert_eq!(Position::MAX.checked_add(1), None);
    }
}
