//! Baseline of a subject: exchanges with as many bytes over plain sockets of this machine.
//!
//! There is no HTTP, no JSON and no store. The other side, on its own thread, reads the bytes of a
//! request and writes the bytes of a response.

use std::io;
use std::time::Instant;

use anyhow::Result;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use duly_load::receiver;

use super::consumer::Exchanged;

/// A call and its response.
#[derive(Debug, Clone, Copy)]
pub(super) struct Exchange {
    /// Bytes of the request.
    pub(super) request: usize,
    /// Bytes of the response.
    pub(super) answer: usize,
}

impl Exchange {
    /// Returns the exchanges of a consumer for one batch.
    pub(super) fn of_consumer(bytes: Exchanged) -> Vec<Self> {
        vec![
            Self { request: bytes.lease_request, answer: bytes.lease_answer },
            Self { request: bytes.settle_request, answer: bytes.settle_answer },
        ]
    }

    /// Returns the exchange of a webhook.
    pub(super) fn of_delivery(delivery_bytes: usize) -> Vec<Self> {
        vec![Self { request: delivery_bytes, answer: receiver::ANSWER.len() }]
    }
}

/// Returns the seconds for `times` rounds of these exchanges, one after another, spread over the
/// connections.
pub(super) async fn seconds(
    exchanges: Vec<Exchange>,
    times: usize,
    connections: usize,
) -> Result<f64> {
    let connections = connections.clamp(1, times.max(1));
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let far_exchanges = exchanges.clone();
    let far_side = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(answer_all(listener, connections, far_exchanges))
    });
    let mut streams = Vec::new();
    for _ in 0..connections {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        streams.push(stream);
    }
    let began = Instant::now();
    let mut callers = JoinSet::new();
    for (place, stream) in streams.into_iter().enumerate() {
        let own = times / connections + usize::from(place < times % connections);
        callers.spawn(call(stream, exchanges.clone(), own));
    }
    while let Some(caller) = callers.join_next().await {
        caller??;
    }
    let took = began.elapsed().as_secs_f64();
    let far_side = tokio::task::spawn_blocking(move || far_side.join()).await?;
    far_side.map_err(|_| anyhow::anyhow!("the far side of the floor panicked"))??;
    Ok(took)
}

async fn call(mut stream: TcpStream, exchanges: Vec<Exchange>, times: usize) -> io::Result<()> {
    let longest = exchanges.iter().map(|one| one.request.max(one.answer)).max().unwrap_or(0);
    let mut bytes = vec![b'x'; longest];
    for _ in 0..times {
        for exchange in &exchanges {
            stream.write_all(&bytes[..exchange.request]).await?;
            stream.read_exact(&mut bytes[..exchange.answer]).await?;
        }
    }
    Ok(())
}

async fn answer_all(
    listener: std::net::TcpListener,
    connections: usize,
    exchanges: Vec<Exchange>,
) -> io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    let mut answering = JoinSet::new();
    for _ in 0..connections {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        answering.spawn(answer(stream, exchanges.clone()));
    }
    while let Some(ended) = answering.join_next().await {
        ended.map_err(io::Error::other)??;
    }
    Ok(())
}

async fn answer(mut stream: TcpStream, exchanges: Vec<Exchange>) -> io::Result<()> {
    let longest = exchanges.iter().map(|one| one.request.max(one.answer)).max().unwrap_or(0);
    let mut bytes = vec![b'x'; longest];
    loop {
        for exchange in &exchanges {
            match stream.read_exact(&mut bytes[..exchange.request]).await {
                Ok(_) => {}
                // The caller has made all of its exchanges.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
                Err(error) => return Err(error),
            }
            stream.write_all(&bytes[..exchange.answer]).await?;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn every_exchange_is_made_and_the_peer_ends() {
        let exchanges = vec![
            Exchange { request: 10, answer: 100_000 },
            Exchange { request: 70_000, answer: 3 },
        ];
        assert!(seconds(exchanges, 7, 3).await.unwrap() > 0.0);
        assert!(seconds(Exchange::of_delivery(600), 1, 100).await.unwrap() > 0.0);
    }
}
