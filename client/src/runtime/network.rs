//! Connections to other processes.

use std::io;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use windlass_common::runtime::BoxFuture;

/// A connection's two directions.
pub trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

/// Where connections come from.
pub trait Network: Send + Sync {
    /// Connects to `HOST:PORT`.
    ///
    /// # Errors
    /// What the system says.
    fn connect(&self, address: &str) -> BoxFuture<'_, io::Result<Box<dyn Io>>>;
}

/// TCP.
#[derive(Clone, Copy, Debug, Default)]
pub struct TokioNetwork;

impl Network for TokioNetwork {
    fn connect(&self, address: &str) -> BoxFuture<'_, io::Result<Box<dyn Io>>> {
        let address = address.to_owned();
        Box::pin(async move {
            let stream = TcpStream::connect(address).await?;
            // A request is written in several pieces; none of them may wait for an acknowledgement.
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as Box<dyn Io>)
        })
    }
}
