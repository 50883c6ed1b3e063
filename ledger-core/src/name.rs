//! The rules that all names share: partitions, holders, event kinds.

use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use crate::{Digest, Invalid};

/// The longest name, in bytes of UTF-8: 255.
pub const MAX_NAME_BYTES: usize = 255;

/// Checks 1 to [`MAX_NAME_BYTES`] bytes and no control characters. Names are compared byte for byte,
/// so nothing is trimmed, folded or normalised.
pub(crate) fn check(what: &'static str, name: &str) -> Result<(), Invalid> {
    if name.is_empty() {
        return Err(Invalid::Empty { what });
    }
    if name.len() > MAX_NAME_BYTES {
        return Err(Invalid::TooLong { what, limit: MAX_NAME_BYTES, actual: name.len() });
    }
    check_characters(what, name)
}

pub(crate) fn check_characters(what: &'static str, text: &str) -> Result<(), Invalid> {
    match text.char_indices().find(|(_, character)| character.is_control()) {
        Some((at, character)) => Err(Invalid::ControlCharacter { what, code: u32::from(character), at }),
        None => Ok(()),
    }
}

/// A name that enters the chain, with its digest: every entry has those of the same two names (I1).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Hashed(Arc<Kept>);

/// Of two, the texts are compared, for the order of names; the digests follow from them.
#[derive(PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Kept {
    text: Box<str>,
    digest: Digest,
}

impl Hashed {
    pub(crate) fn digest(&self) -> Digest {
        self.0.digest
    }
}

impl From<&str> for Hashed {
    fn from(text: &str) -> Self {
        // At once, not when it is first asked for: a name is a key in maps, and what changes is none to be.
        let digest = Digest::new(Sha256::digest(text.as_bytes()).into());
        Self(Arc::new(Kept { text: text.into(), digest }))
    }
}

impl std::ops::Deref for Hashed {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0.text
    }
}

/// A validated, cheaply cloned text newtype over `Arc<str>` or [`Hashed`]: `new`, `as_str`, `Display`, and serde through
/// the same check.
macro_rules! text_newtype {
    ($(#[$doc:meta])* $name:ident($text:ty), $what:literal, $check:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name($text);

        impl $name {
            #[doc = concat!("Checks `text` and makes a ", $what, " of it.\n\n# Errors\n\n[`Invalid`](crate::Invalid) names the limit and the actual value.")]
            pub fn new(text: impl AsRef<str>) -> Result<Self, crate::Invalid> {
                let text = text.as_ref();
                $check(text)?;
                Ok(Self(text.into()))
            }

            /// The text as it was given, byte for byte.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = crate::Invalid;
            fn try_from(text: String) -> Result<Self, crate::Invalid> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> String {
                name.as_str().to_owned()
            }
        }

        impl std::str::FromStr for $name {
            type Err = crate::Invalid;
            fn from_str(text: &str) -> Result<Self, crate::Invalid> {
                Self::new(text)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                self.as_str()
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{:?}", self.as_str())
            }
        }
    };
}
pub(crate) use text_newtype;
