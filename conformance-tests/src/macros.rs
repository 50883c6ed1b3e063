//! The second door: one test a case.

/// Makes one `#[test]` of each case, named by the case, on a harness.
///
/// A test prints nothing where its case passes, and panics with the violation where not. A case that needs a hook
/// which the harness lacks fails, so that nothing is skipped by accident. Hooks that a backend can not have are
/// declared, each with the reason: their cases become `#[ignore = "reason"]` tests, which the test runner lists as
/// ignored. One more test, `declared_skips_are_true`, fails where a hook was declared as missing and is there.
///
/// ```
/// # use std::sync::Arc;
/// # use conformance_tests::{Harness, HarnessError, Storage};
/// # struct MyHarness;
/// # struct MyStorage(ledger_memory::MemoryLedger);
/// # #[async_trait::async_trait]
/// # impl Harness for MyHarness {
/// #     async fn provision(&self) -> Result<Box<dyn Storage>, HarnessError> {
/// #         Ok(Box::new(MyStorage(ledger_memory::MemoryLedger::new())))
/// #     }
/// # }
/// # #[async_trait::async_trait]
/// # impl Storage for MyStorage {
/// #     async fn open(&self) -> Result<Arc<dyn ledger_core::FencedLedger>, HarnessError> {
/// #         Ok(Arc::new(self.0.clone()))
/// #     }
/// # }
/// conformance_tests::conformance_tests!(MyHarness, without: {
///     clock: "the server's clock can not be set",
///     hold_lock: "the store has no locks",
/// });
/// # fn main() {}
/// ```
///
/// Invoke it once a module. The expression is evaluated anew for each test.
#[macro_export]
macro_rules! conformance_tests {
    ($harness:expr $(,)?) => {
        $crate::conformance_tests!($harness, without: {});
    };
    ($harness:expr, without: { $($hook:ident : $reason:literal),* $(,)? } $(,)?) => {
        $crate::__define_case_macro!{ ($) $($hook : $reason),* }

        fn __conformance_harness() -> impl $crate::Harness {
            $harness
        }

        $crate::for_each_case!{ $crate::__emit_tests }

        #[test]
        fn declared_skips_are_true() {
            $crate::run_declared_skips(&__conformance_harness(), &[$($crate::__hook!($hook)),*]);
        }
    };
}

/// Defines the macro that makes the test of one case: ignored where it needs a hook that was declared as missing.
#[doc(hidden)]
#[macro_export]
macro_rules! __define_case_macro {
    (($d:tt) $($hook:ident : $reason:literal),*) => {
        macro_rules! __conformance_case {
            $(
                ([$hook $d($d rest:ident)*] $d id:ident) => {
                    #[test]
                    #[ignore = $reason]
                    fn $d id() {
                        $crate::run_test(&__conformance_harness(), stringify!($d id));
                    }
                };
            )*
            ([$d first:ident $d($d rest:ident)*] $d id:ident) => {
                __conformance_case!{ [$d($d rest)*] $d id }
            };
            ([] $d id:ident) => {
                #[test]
                fn $d id() {
                    $crate::run_test(&__conformance_harness(), stringify!($d id));
                }
            };
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __emit_tests {
    ($($family:ident { $($id:ident [$($hook:ident)*] [$($rule:literal)*] $why:literal;)* })*) => {
        $($( __conformance_case!{ [$($hook)*] $id } )*)*
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __hook {
    (clock) => {
        $crate::Hook::Clock
    };
    (restart) => {
        $crate::Hook::Restart
    };
    (hold_lock) => {
        $crate::Hook::HoldLock
    };
    (tamper) => {
        $crate::Hook::Tamper
    };
    (crash) => {
        $crate::Hook::Crash
    };
    (line) => {
        $crate::Hook::Line
    };
    (hold_commit) => {
        $crate::Hook::HoldCommit
    };
    (fail_write) => {
        $crate::Hook::FailWrite
    };
    (snapshot) => {
        $crate::Hook::Snapshot
    };
}
