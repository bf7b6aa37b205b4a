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
//! let close = Schedule::after(Duration::from_secs(30 * 60)).with_id("order:1").with_text("close");
//! client.schedule("orders", close).await?;
//!
//! // It is paid.
//! client.cancel("orders", "order:1").await?;
//!
//! // Elsewhere: the consumer that closes orders.
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
//! 1. Requests and responses are the messages of [`duly_api`], the public model; this crate re-exports
//!    them. The server checks requests; its refusals name the field.
//! 2. The client repeats a call only if that is safe ([`retry`]).
//! 3. Every error advises whether to repeat the call ([`Error::retry`]). A change whose response got
//!    lost, and that is not safe to repeat, is an [`Error::Unknown`].
//! 4. Calls are sent at once, and in batches under load ([`Batching`]). All memory is bounded.
//!
//! The client needs a Tokio runtime. [`Client`] is cheap to clone, and one per program is enough. The
//! feature `tls`, on by default, adds `https://` to a proxy in front of the server; the server itself
//! serves cleartext on loopback.
//!
//! Start reading at [`Client::builder`], [`Client::schedule`] and [`Client::consume`]; in the code at
//! `client.rs`, `batch.rs` and `consumer.rs`.

mod batch;
mod builder;
mod client;
mod connection;
mod consumer;
mod error;
mod list;
pub mod retry;
#[cfg(feature = "tls")]
mod tls;

pub use self::{
    batch::Batching,
    builder::Builder,
    client::Client,
    consumer::{Consumer, ConsumerBuilder, Counts, Dedup, Failure, Handler},
    error::{Code, Error, Invalid, Refusal, RetryAdvice},
    list::Listing,
    retry::Retries,
};
pub use duly_api::{
    self, Attempt, AttemptOutcome, Bucket, Cancel, CancelFilter, CancelManyRequest,
    CancelManyResponse, CancelResponse, ClusterInfo, DeadLetterError, DeadLetterOverdueResponse,
    DeadReason, Destination, Duration, Fallback, Fire, Firing, ForgetResponse, Header,
    HttpDestination, IfExists, Lane, LaneLimits, LeaseRequest, LeaseResponse, Limits, ListResponse,
    Namespace, NamespaceField, NamespaceForecast, NamespaceLimits, NamespaceSettings,
    NamespaceStats, Node, Operation, OperationResult, Problem, PurgeRequest, PurgeResponse,
    PushLane, RedriveRequest, RedriveResponse, Reschedule, Retry, RetryVerdict, Schedule,
    SettleOutcome, Settlement, SigningSecrets, SnoozeVerdict, State, Time, Timer, TimerField,
    Totals, Unchanged, View, v1::ListRequest,
};

/// Compiles the programs of the guide.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guide/rust-client.md")]
struct Guide;
