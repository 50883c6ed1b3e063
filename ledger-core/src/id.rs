//! Identities: of a ledger, of an attempt to become holder, of an append.

use uuid::Uuid;

use crate::{Invalid, random};

macro_rules! uuid_newtype {
    ($(#[$doc:meta])* $name:ident, $what:literal, $mint:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(try_from = "Uuid", into = "Uuid")]
        pub struct $name(Uuid);

        impl $name {
            /// Mints a new one: a UUID of version 7 (time-ordered, 62 random bits at least).
            pub fn mint() -> Self {
                Self($mint())
            }

            /// Takes any UUID but the nil one.
            ///
            /// # Errors
            ///
            /// [`Invalid::NilUuid`]: a nil id is a forgotten one.
            pub fn from_uuid(uuid: Uuid) -> Result<Self, Invalid> {
                if uuid.is_nil() { Err(Invalid::NilUuid { what: $what }) } else { Ok(Self(uuid)) }
            }

            /// The UUID.
            pub fn as_uuid(&self) -> Uuid {
                self.0
            }
        }

        impl TryFrom<Uuid> for $name {
            type Error = Invalid;
            fn try_from(uuid: Uuid) -> Result<Self, Invalid> {
                Self::from_uuid(uuid)
            }
        }

        impl From<$name> for Uuid {
            fn from(id: $name) -> Uuid {
                id.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

uuid_newtype!(
    /// Names one ledger. Minted when the ledger is installed; every lease carries it, so that a lease of
    /// another ledger is refused before the store is asked (J4).
    LedgerId,
    "ledger id",
    Uuid::now_v7
);

uuid_newtype!(
    /// Names one attempt to become holder. A claimant mints it, keeps it while it retries that attempt,
    /// and mints another for the next one (C4).
    ///
    /// It tells two tenures of one holder name apart, also where a store that lost its newest writes
    /// gave the same generation out twice.
    AcquisitionId,
    "acquisition id",
    // Two processes with one acquisition would be one holder to the store, so nothing of it comes from a supply that a
    // fork has doubled.
    Uuid::now_v7
);

uuid_newtype!(
    /// Names one append. A retry carries the same id, and is answered with the first result (A4).
    ///
    /// Ids are scoped to a partition and are known over its whole life. The ledger's `$claimed` entries
    /// use their acquisition as id, in the same scope.
    AppendId,
    "append id",
    random::uuid_v7
);

/// The id of a `$claimed` entry is its acquisition, so that [`fate`](crate::FencedLedger::fate) settles a claim too.
impl From<AcquisitionId> for AppendId {
    fn from(acquisition: AcquisitionId) -> Self {
        Self(acquisition.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nil_uuid_is_refused_also_through_serde() {
        assert_eq!(AppendId::from_uuid(Uuid::nil()), Err(Invalid::NilUuid { what: "append id" }));
        let nil = format!("{:?}", Uuid::nil().to_string());
        assert!(serde_json::from_str::<AcquisitionId>(&nil).is_err());
        let max = AppendId::from_uuid(Uuid::max()).expect("the largest UUID is an id like any other");
        let text = serde_json::to_string(&max).expect("a UUID serialises");
        assert_eq!(serde_json::from_str::<AppendId>(&text).expect("what was written is read"), max);
    }

    #[test]
    fn minted_ids_are_of_version_7_and_differ() {
        let (first, second) = (AcquisitionId::mint(), AcquisitionId::mint());
        assert_eq!(first.as_uuid().get_version_num(), 7);
        assert_ne!(first, second);
    }
}
