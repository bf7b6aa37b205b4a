//! The webhook receiver: confirms, fails, gives up, dawdles and hangs up, by the seed.
//!
//! What it does with a delivery depends on the seed, the delivery id and the attempt only. While
//! the run drains it confirms everything.

use std::hash::{BuildHasher, BuildHasherDefault};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use http_body_util::{BodyExt, Empty};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustc_hash::FxHasher;
use tokio::net::TcpListener;

use super::world::{Phase, WEBHOOK_TIMEOUT, World};
use crate::api;
use crate::clock::now_us;
use crate::history::{Delivery, Reply, Via};

/// What happens to one delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    Status(StatusCode),
    /// Confirms, but late: near or after the server's patience.
    Late(Duration),
    HangUp,
}

impl Manner {
    const fn reply(self) -> Reply {
        match self {
            Self::Status(StatusCode::OK) => Reply::Confirmed,
            Self::Status(StatusCode::GONE) => Reply::GaveUp,
            Self::Status(_) => Reply::Rejected,
            Self::Late(_) | Self::HangUp => Reply::Unknown,
        }
    }
}

/// A receiver that listens.
pub(super) struct Receiver {
    listener: TcpListener,
    address: SocketAddr,
    seed: u64,
}

#[derive(Debug, thiserror::Error)]
#[error("hung up on purpose")]
struct HungUp;

impl Receiver {
    pub(super) async fn bind(seed: u64) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        Ok(Self { address: listener.local_addr()?, listener, seed })
    }

    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes deliveries until the task is aborted.
    pub(super) async fn serve(self, world: Arc<World>) {
        loop {
            let Ok((stream, _)) = self.listener.accept().await else {
                continue;
            };
            let world = Arc::clone(&world);
            let seed = self.seed;
            tokio::spawn(async move {
                let service = service_fn(move |request| receive(Arc::clone(&world), seed, request));
                // It ends with an error whenever it hung up or the server was killed.
                drop(
                    hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await,
                );
            });
        }
    }
}

async fn receive(
    world: Arc<World>,
    seed: u64,
    request: Request<Incoming>,
) -> Result<Response<Empty<Bytes>>, HungUp> {
    let received_us = now_us();
    let header = |name: &str| request.headers().get(name)?.to_str().ok().map(str::to_owned);
    let namespace = request.uri().path().trim_start_matches('/').to_owned();
    let told = (|| {
        let id = unescape(&header("ce-subject")?)?;
        let due = header("duly-due-at")?;
        let due_ms = due.parse().ok().or_else(|| api::time_ms(&due.as_str().into()))?;
        let attempt: u32 = header("duly-attempt")?.parse().ok()?;
        Some((id, header("webhook-id")?, attempt, due_ms))
    })();
    let Ok(body) = request.into_body().collect().await else {
        // Cut off in the middle by a kill: not a delivery.
        return Err(HungUp);
    };
    let Some((id, delivery_id, attempt, due_ms)) = told else {
        eprintln!("a webhook lacks ce-subject, webhook-id, duly-attempt or duly-due-at");
        return Ok(status(StatusCode::BAD_REQUEST));
    };
    let payload = serde_json::from_slice(&body.to_bytes()).unwrap_or_default();
    let manner = manner(&world, seed, &delivery_id, attempt);
    world.recorder.delivery(Delivery {
        key: world.recorder.key(&namespace, &id),
        received_us,
        mark: api::mark_of(&payload),
        delivery_id: world.recorder.delivery_id(&delivery_id),
        attempt,
        due_ms,
        via: Via::Push { reply: manner.reply() },
    });
    match manner {
        Manner::Status(code) => Ok(status(code)),
        Manner::Late(wait) => {
            tokio::time::sleep(wait).await;
            Ok(status(StatusCode::OK))
        }
        Manner::HangUp => Err(HungUp),
    }
}

fn status(code: StatusCode) -> Response<Empty<Bytes>> {
    let mut response = Response::new(Empty::new());
    *response.status_mut() = code;
    response
}

fn manner(world: &World, seed: u64, delivery_id: &str, attempt: u32) -> Manner {
    if world.phase() != Phase::Load {
        return Manner::Status(StatusCode::OK);
    }
    let hash = BuildHasherDefault::<FxHasher>::default().hash_one((seed, delivery_id, attempt));
    let dice = (hash >> 32) % 1_000;
    match dice {
        0..840 => Manner::Status(StatusCode::OK),
        840..910 => Manner::Status(StatusCode::INTERNAL_SERVER_ERROR),
        910..930 => Manner::Status(StatusCode::SERVICE_UNAVAILABLE),
        930..945 => Manner::Status(StatusCode::GONE),
        945..965 => Manner::Late(Duration::from_millis(hash % 900)),
        965..970 => Manner::Late(WEBHOOK_TIMEOUT + Duration::from_millis(500)),
        _ => Manner::HangUp,
    }
}

fn unescape(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let hex = [rest.next()?, rest.next()?];
            let hex = std::str::from_utf8(&hex).ok()?;
            bytes.push(u8::from_str_radix(hex, 16).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_undone() {
        for text in ["plain", "a b/é%41", "100%", "\u{1F552}"] {
            assert_eq!(unescape(&api::segment(text)).as_deref(), Some(text));
        }
        assert_eq!(unescape("%4"), None);
    }
}
