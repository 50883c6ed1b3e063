//! Idempotency keys, and the append ids that are derived from them (Q2).
//!
//! ```text
//! id = first 16 bytes of H( "fenced-ledger/request/1" ‖ number, 8 bytes big-endian ‖ key )
//!      with the version 8 and the variant of RFC 9562 set
//! ```
//!
//! `number` is 0 for the request itself and n for its n-th change, `H` is SHA-256, the key is its bytes. The test below
//! holds vectors. Like all append ids they are scoped to a partition: the same key in two partitions is two requests.

use sha2::{Digest as _, Sha256};
use uuid::Builder;

use crate::{AppendId, name};

const DOMAIN: &[u8] = b"fenced-ledger/request/1";

name::text_newtype!(
    /// The idempotency key of a request: 1 to 255 bytes of UTF-8 without control characters, compared byte for byte.
    ///
    /// It names the request within its partition, for ever, and is what the other system is sent (Q1, Q5). Take it from
    /// the matter itself, such as an invoice's number, never from a random source that a restart forgets.
    RequestKey(std::sync::Arc<str>),
    "request key",
    |text: &str| name::check("request key", text)
);

impl RequestKey {
    /// The append id of the request itself (number 0) or of its n-th change. Any language computes the same: the
    /// layout is H("fenced-ledger/request/1" ‖ number as 8 bytes, big-endian ‖ key), of that the first 16 bytes as a
    /// UUID of version 8.
    pub fn append_id(&self, number: u32) -> AppendId {
        let hash: [u8; 32] = Sha256::new()
            .chain_update(DOMAIN)
            .chain_update(u64::from(number).to_be_bytes())
            .chain_update(self.as_str())
            .finalize()
            .into();
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&hash[..16]);
        let uuid = Builder::from_custom_bytes(bytes).into_uuid();
        AppendId::from_uuid(uuid).expect("a UUID of version 8 is not nil")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_derived_as_it_is_written_down() {
        for (number, key, id) in VECTORS {
            let key = RequestKey::new(key).expect("a key");
            assert_eq!(key.append_id(*number).to_string(), *id, "{key} {number}");
        }
    }

    const VECTORS: &[(u32, &str, &str)] = &[
        (0, "invoice-7", "e6728a0d-a53a-84f5-b071-8a0de510ee03"),
        (1, "invoice-7", "4e37ef03-c6bc-834c-972c-e51c133974de"),
        (2, "invoice-7", "f6ae4df0-6eb0-8fc9-a06e-2c31e9875fcf"),
        (0, "é", "01e19f51-dfe1-8388-8a79-1bd3a737c932"),
        (u32::MAX, "x", "d06958f0-b1c2-8689-8103-bc3669549c2d"),
    ];

    #[test]
    fn keys_follow_the_name_rules() {
        assert!(RequestKey::new("k".repeat(255)).is_ok());
        assert!(RequestKey::new("k".repeat(256)).is_err());
        assert!(RequestKey::new("").is_err());
        assert!(RequestKey::new("a\nb").is_err());
    }
}
