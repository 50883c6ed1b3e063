//! The locks. The crate `schedules` compiles the same sources with shuttle's in this place.

pub(crate) use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
