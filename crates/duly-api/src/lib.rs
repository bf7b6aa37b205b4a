//! The public model of Duly: the messages of its interfaces, once.
//!
//! ```text
//!   JSON (HTTP) ──► json::parse ─┐                        ┌─► serde ──► JSON
//!                                ├─► message ─► check ─► core
//!   protobuf (gRPC) ──► prost ───┘      ▲                 └─► prost ──► protobuf
//!                                       │
//!                       core ─► Timer::new, Namespace::new, …
//! ```
//!
//! 1. A message is one structure with both forms: `prost` gives each field its number, `serde` its name.
//!    Its documentation is that of the OpenAPI document.
//! 2. `check` turns a message into values of `duly-core` and names the field that is not allowed. Server
//!    and tests check messages only with it.
//! 3. [`Problem`] is the one error body.
//! 4. A test compares the structures with the `.proto` files, field by field. The services and the
//!    messages that only gRPC has are generated into [`v1`] (`cargo xtask proto`).
//!
//! The crate depends on no store, server or runtime. The server, the client and the load generator use
//! it. Start reading at [`Schedule`] and [`Timer`]; the `.proto` files at `proto/duly/v1/timers.proto`.

#[macro_use]
mod dual_form;

pub mod access;
pub mod batch;
mod builders;
pub mod cluster;
pub mod dead_letters;
pub mod destination;
pub mod duration;
pub mod filter;
pub mod headers;
pub mod json;
pub mod lease;
pub mod moved;
pub mod namespace;
pub mod number;
pub mod payload;
pub mod problem;
pub mod retry;
pub mod schedule;
pub mod schema;
pub mod settle;
pub mod stats;
pub mod time;
pub mod timer;
pub mod trace;
pub mod words;

pub use self::{
    batch::{BatchResponse, Cancel, CancelResponse, Fire, Operation, OperationResult},
    cluster::{ClusterInfo, Node},
    dead_letters::{
        DeadLetterError, DeadLetterNames, DeadLetterOverdueRequest, DeadLetterOverdueResponse,
        ForgetResponse, PurgeRequest, PurgeResponse, RedriveRequest, RedriveResponse,
    },
    destination::{Destination, HttpDestination, PullDestination},
    duration::Duration,
    filter::{CancelFilter, CancelManyRequest, CancelManyResponse},
    headers::{Header, HeaderList},
    lease::{Firing, LeaseRequest, LeaseResponse},
    namespace::{
        Fallback, LaneLimits, Limits, ListNamespacesResponse, Namespace, NamespaceLimits,
        NamespaceSettings, RepairNamespaceResponse, ResumeRequest, SigningSecrets,
    },
    payload::MessageFormat,
    problem::Problem,
    retry::Retry,
    schedule::{Reschedule, Schedule, TagList},
    settle::{
        Ack, DeadVerdict, ExtendVerdict, RetryVerdict, SettleResponse, SettleResult, Settlement,
        SnoozeVerdict,
    },
    stats::{Bucket, FallbackState, Lane, NamespaceForecast, NamespaceStats, PushLane, Totals},
    time::Time,
    timer::{Attempt, ListResponse, Timer},
    words::{
        AttemptOutcome, DeadReason, IfExists, NamespaceField, SettleOutcome, State, TimerField,
        Unchanged, View, Words,
    },
};

/// Version 1 of the gRPC interface: its services, all messages, and the messages that only gRPC has.
pub mod v1 {
    #![allow(
        missing_docs,
        unreachable_pub,
        clippy::all,
        reason = "generated; the .proto files say what things are"
    )]

    include!("generated/duly.v1.rs");

    pub use crate::{
        batch::*, cluster::*, dead_letters::*, destination::*, filter::*, headers::*, lease::*,
        namespace::*, problem::*, retry::*, schedule::*, settle::*, stats::*, timer::*, words::*,
    };

    /// The encoded descriptors of all files, for reflection.
    pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!("generated/duly.v1.bin");
}
