//! Checks under schedules of shuttle: random ones and those of PCT, so many of each.

mod common;
mod keeper;
mod memory;
