//! Servers whose disk or store of checkpoints is damaged, full, or fails: what they find, what they
//! say, and that nothing counts twice or is lost.
#![allow(clippy::unwrap_used, reason = "a test panics when something is wrong")]

mod damage;
mod disk;
mod life;
mod saving;
mod trouble;
