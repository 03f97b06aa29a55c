//! The wire: `.proto` files, conversions between messages and the vocabulary, limits, and the one
//! error that crosses it. The only crate that knows protocol buffers.
//!
//! Reading order: `proto/windlass/v1/*.proto`, [`limits`], [`memory`], [`codec`], [`version`],
//! [`error`], [`status`], [`convert`], [`chunks`].

pub mod chunks;
pub mod codec;
pub mod convert;
pub mod error;
pub mod limits;
pub mod memory;
pub mod status;
pub mod version;

/// Messages and services, generated from the `.proto` files of the package `windlass.v1`.
#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::allow_attributes_without_reason,
    clippy::clone_on_ref_ptr,
    clippy::missing_errors_doc,
    reason = "generated"
)]
pub mod v1 {
    tonic::include_proto!("windlass.v1");
}

pub use error::{ErrorKind, WireError};
pub use limits::Limits;
