//! The mark by which shadows are told from holders that enforce (W1).

use crate::{Holder, Invalid};

/// What the name of each shadow begins with, and of nobody else.
pub const MARK: &str = "shadow/";

/// The name under which a writer's shadow claims.
///
/// # Errors
///
/// [`Invalid::TooLong`] where mark and name have more than 255 bytes together; [`Invalid::Unusable`] for the name of a
/// shadow, which has none of its own.
pub(super) fn mark(writer: &Holder) -> Result<Holder, Invalid> {
    refuse(writer, "writer beside which a shadow stands")?;
    Holder::new(format!("{MARK}{writer}"))
}

/// Whether a holder is a shadow.
pub fn is_shadow(holder: &Holder) -> bool {
    holder.as_str().starts_with(MARK)
}

/// The name of the writer beside which a shadow stands; of a holder that enforces, its own.
pub fn unmarked(holder: &Holder) -> &str {
    holder.as_str().strip_prefix(MARK).unwrap_or(holder.as_str())
}

/// Refuses the name of a shadow to who enforces.
pub(crate) fn refuse(holder: &Holder, what: &'static str) -> Result<(), Invalid> {
    if is_shadow(holder) {
        let problem = format!("`{holder}` begins with `{MARK}`: such names are of shadows, which only try");
        return Err(Invalid::Unusable { what, problem });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mark_and_name_fit_into_a_name_and_come_apart_again() {
        let name = |text: &str| Holder::new(text).expect("a name");
        let marked = mark(&name("a")).expect("short");
        assert_eq!((marked.as_str(), is_shadow(&marked), unmarked(&marked)), ("shadow/a", true, "a"));
        assert_eq!((is_shadow(&name("shadow")), unmarked(&name("shadow"))), (false, "shadow"));
        assert!(mark(&name(&"x".repeat(248))).is_ok());
        let long = Err(Invalid::TooLong { what: "holder", limit: 255, actual: 256 });
        assert_eq!(mark(&name(&"x".repeat(249))), long);
        assert!(mark(&marked).is_err(), "a shadow has no shadow");
    }
}
