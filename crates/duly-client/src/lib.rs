//! The Rust client of Duly, a distributed timer: *deliver this payload at that time, unless
//! cancelled.*
//!
//! ```no_run
//! use std::time::Duration;
//! use duly_client::{Client, Failure, Firing, Schedule};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), duly_client::Error> {
//! let client = Client::new("http://127.0.0.1:3859")?;
//!
//! // An order is placed: it is closed in 30 minutes, unless it is paid.
//! let close = Schedule::after(Duration::from_secs(30 * 60)).id("order:1").text("close it");
//! client.schedule("orders", close).await?;
//!
//! // It is paid.
//! client.cancel("orders", "order:1").await?;
//!
//! // Elsewhere: whoever closes orders.
//! let consumer = client.consume("orders", |firing: Firing| async move {
//!     println!("{} was not paid in time", firing.id);
//!     Ok::<(), Failure>(())
//! })?;
//! consumer.ended().await?;
//! # Ok(())
//! # }
//! ```
//!
//! ```text
//!   Builder ──► Client ──┬─ schedule, cancel, reschedule, fire ──► batches ──┐
//!                        ├─ get, list, namespaces, lease, settle ────────────┼─► one connection
//!                        └─ consume ──► Consumer ──► a stream ───────────────┘
//! ```
//!
//! * **It promises** that what it repeats is safe to repeat ([`retry`]); that every error says whether
//!   another try can help ([`Error::retry`]); that calls are sent at once, and together where they
//!   are many ([`Batching`]); and that everything it keeps has a bound.
//! * **It refuses** to hide what is not known: a change whose answer got lost and that is not safe to
//!   repeat is an [`Error::Unknown`], and never a guess.
//!
//! It needs a Tokio runtime. [`Client`] is cheap to clone, and one for a whole program is enough.
//! With the feature `tls`, which is on by default, it speaks `https://` to a proxy in front of the
//! server; the server itself speaks cleartext on loopback.
//!
//! Start reading at [`Client::builder`], [`Client::schedule`] and [`Client::consume`]; in the code at
//! `client.rs`, `batch.rs` and `consumer.rs`.

mod batch;
mod builder;
mod change;
mod client;
mod cluster;
mod consumer;
mod destination;
mod error;
mod link;
mod list;
mod many;
pub mod namespace;
mod operation;
mod payload;
mod pull;
pub mod retry;
mod schedule;
mod timer;
#[cfg(feature = "tls")]
mod tls;
mod wire;

pub use self::{
    batch::Batching,
    builder::Builder,
    change::{Change, TimerField},
    client::Client,
    cluster::{Cluster, Node},
    consumer::{Consumer, ConsumerBuilder, Counts, Dedup, Failure, Handler},
    destination::{Destination, HttpDestination, RetryPolicy},
    error::{Code, Error, Invalid, Refusal, Retry},
    list::{Filter, Listing, Page},
    many::{CancelMany, CancelledMany, DeadLetterResult, DeadLettered, Letters, Redrive},
    namespace::{Forecast, Namespace, Settings, SettingsChange, Stats},
    operation::{Done, Operation},
    payload::{Payload, PayloadForm},
    pull::{Firing, Lease, Leased, Settled, Settlement, Verdict},
    retry::Retries,
    schedule::{IfExists, Schedule},
    timer::{Attempt, Cancelled, Outcome, Scheduled, Timer},
};
pub use duly_core::State;

/// The programs of the guide are compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/rust-client.md")]
struct Guide;
