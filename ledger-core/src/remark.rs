//! Remarks: what an append wants to have kept of it if it is refused.

use crate::{Invalid, name};

/// The longest remark, in bytes of UTF-8: 2 KiB. It holds every late answer to a request, also one whose every
/// character must be escaped.
pub const MAX_REMARK_BYTES: usize = 2_048;

name::text_newtype!(
    /// What an [`Append`](crate::Append) says for the case that it is refused: opaque to the store, 1 to
    /// [`MAX_REMARK_BYTES`] bytes of UTF-8 without control characters.
    ///
    /// The store keeps it with the rejection's record and nowhere else (E1); it is part of the record's key, so that
    /// two remarks are two records within the bound of E3. It is no part of the append's content: a replay may carry
    /// another one. A granted append leaves no trace of it.
    Remark(std::sync::Arc<str>),
    "remark",
    |text: &str| {
        if text.is_empty() {
            return Err(Invalid::Empty { what: "remark" });
        }
        if text.len() > MAX_REMARK_BYTES {
            return Err(Invalid::TooLong { what: "remark", limit: MAX_REMARK_BYTES, actual: text.len() });
        }
        name::check_characters("remark", text)
    }
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_exact_and_named() {
        assert!(Remark::new("x".repeat(MAX_REMARK_BYTES)).is_ok());
        assert_eq!(
            Remark::new("x".repeat(MAX_REMARK_BYTES + 1)),
            Err(Invalid::TooLong { what: "remark", limit: 2_048, actual: 2_049 })
        );
        assert_eq!(Remark::new(""), Err(Invalid::Empty { what: "remark" }));
        assert!(Remark::new("two\nlines").is_err());
    }
}
