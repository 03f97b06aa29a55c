//! Pushes that are applied before they may be acknowledged.

use windlass_client::transport::{Answered, Shards};
use windlass_common::exchange::{Push, Pushed};
use windlass_common::runtime::BoxFuture;
use windlass_proto::WireError;

/// Ends when an answer may leave; an error is what the caller is told in its place.
pub type Release = BoxFuture<'static, Result<(), WireError>>;

/// The answer to a push that has been worked.
pub struct Worked {
    /// What it did to each shard.
    pub pushed: Pushed,
    /// What the answer waits for (rule S2), if it waits: the log is on disk up to this moment.
    pub release: Option<Release>,
}

/// Shards whose acknowledgements may wait for a disk while later requests are worked.
///
/// [`push`](Shards::push) does both at once, so its callers see durable answers only.
pub trait Durable: Shards {
    /// Applies gradients once, and says what the answer waits for.
    ///
    /// Every answer, a duplicate's too (rule S2). By itself it waits for nothing, beyond what `push`
    /// waits for.
    fn work(&self, push: Push) -> Answered<'_, Worked> {
        let pushed = self.push(push);
        Box::pin(async {
            Ok(Worked {
                pushed: pushed.await?,
                release: None,
            })
        })
    }
}
