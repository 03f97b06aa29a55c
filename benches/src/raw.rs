//! The same bytes over a bare TCP connection: what a protocol can reach at the most.

use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// Bytes of a message's head: how long it is, and how long its answer is to be.
const HEAD: usize = 8;

/// Bytes of an exchange, on the way there and back.
#[derive(Clone, Copy, Debug)]
pub struct Exchange {
    /// Of the question.
    pub asked: u32,
    /// Of the answer.
    pub answered: u32,
}

/// Answers whoever connects, each message by as many bytes as it asks for. Never ends; the port is
/// written to standard output.
///
/// # Errors
/// What the network says.
pub async fn serve() -> anyhow::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    writeln!(std::io::stdout(), "{}", listener.local_addr()?)?;
    loop {
        let (stream, _) = listener.accept().await?;
        // An error means that the client has gone.
        tokio::spawn(async move { answer(stream).await.ok() });
    }
}

async fn answer(mut stream: TcpStream) -> anyhow::Result<()> {
    stream.set_nodelay(true)?;
    let mut bytes = Vec::new();
    loop {
        let (asked, answered) = (stream.read_u32_le().await?, stream.read_u32_le().await?);
        bytes.resize(asked.max(answered) as usize, 7);
        stream.read_exact(&mut bytes[..asked as usize]).await?;
        stream.write_all(&bytes[..answered as usize]).await?;
    }
}

/// How many exchanges a second there are with so many in flight.
///
/// # Errors
/// What the network says.
pub async fn rate(
    address: &str,
    exchange: Exchange,
    in_flight: usize,
    time: Duration,
) -> anyhow::Result<f64> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (mut reader, mut writer) = stream.into_split();
    let room = Arc::new(Semaphore::new(in_flight));
    let began = Instant::now();
    let permits = Arc::clone(&room);
    let writing = tokio::spawn(async move {
        let mut message = vec![7; HEAD + exchange.asked as usize];
        message[..4].copy_from_slice(&exchange.asked.to_le_bytes());
        message[4..HEAD].copy_from_slice(&exchange.answered.to_le_bytes());
        while began.elapsed() < time {
            permits.acquire().await?.forget();
            writer.write_all(&message).await?;
        }
        // Half closed: the answers that are on their way still come.
        writer.shutdown().await?;
        anyhow::Ok(())
    });
    let mut bytes = vec![0; exchange.answered as usize];
    let mut count = 0u64;
    while reader.read_exact(&mut bytes).await.is_ok() {
        room.add_permits(1);
        count += 1;
    }
    let rate = count as f64 / began.elapsed().as_secs_f64();
    writing.await??;
    Ok(rate)
}
