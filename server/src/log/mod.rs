//! The log of a server: what it applied, on its disk before it is acknowledged.
//!
//! Records are appended under a shard's lock, so those of one shard lie in the order in which they
//! were applied. Any of them may be replayed on any copy of the shard: its windows judge them
//! (rule A5), so whatever part of the log is left is a truthful one.
//!
//! Reading order: `append` (what callers see), `buffer` (what waits for the disk), `commit` (the
//! writer), `tail` (the file that it writes), `chain` (the files), then `recover` (a start),
//! `replay` and `cut`.

mod append;
mod buffer;
mod chain;
mod commit;
mod cut;
mod reached;
mod recover;
mod replay;
mod tail;
#[cfg(test)]
mod tests;

pub use append::{Log, LogState, Settings};
pub use cut::Coverage;
pub use recover::Recovered;
