//! The wire format: bodies in and out, and their conversion from and to the values of the core.
//!
//! * Bodies in are `…In` structures whose fields are as the caller wrote them; `check` turns them
//!   into checked values and names the field that is not allowed. Unknown fields are refused.
//! * Bodies out are `…Out` structures that borrow from the store's views and are written straight
//!   to JSON.
//! * [`json`] explains what does not even have the right shape.
//!
//! No other part of the project knows a field's name on the wire. Called by [`crate::http`].

pub mod backup;
pub mod batch;
pub mod bulk;
pub mod cluster;
pub mod destination;
pub mod duration;
pub mod fallback;
pub mod field;
pub mod firing;
pub mod forecast;
pub mod headers;
pub mod health;
pub mod json;
pub mod letters;
pub mod limits;
pub mod namespace;
pub mod number;
pub mod overdue;
pub mod patch;
pub mod payload;
pub mod problem;
pub(crate) mod proto;
pub mod repair;
pub mod retry;
pub mod schedule;
mod schema;
pub mod settlement;
pub mod stats;
pub mod time;
pub mod timer;
pub mod trace;
pub mod transport;

pub use backup::{BackupIn, BackupOut};
pub use batch::{BatchIn, BatchOut, CancelledOut, OperationIn, OperationResult};
pub use bulk::{BulkCancelIn, BulkCancelledOut};
pub use cluster::{ClusterOut, NodeOut};
pub use destination::{DestinationIn, DestinationOut};
pub use duration::{Duration, DurationOut};
pub use fallback::{FallbackIn, FallbackOut};
pub use field::Field;
pub use firing::{FiringOut, LeaseIn, LeasedOut};
pub use forecast::ForecastOut;
pub use headers::{Headers, HeadersOut};
pub use letters::{PurgeIn, PurgedOut, RedriveIn, RedrivenOut};
pub use limits::{LimitsIn, LimitsOut};
pub use namespace::{NamespaceIn, NamespaceOut, NamespacesOut, RepairedOut, ResumeIn};
pub use number::Integer;
pub use overdue::{DeadLetteredOut, OverdueIn};
pub use patch::PatchIn;
pub use problem::ProblemOut;
pub use repair::{RepairIn, RepairOut, RepairedShardOut};
pub use retry::{RetryIn, RetryOut};
pub use schedule::ScheduleIn;
pub use settlement::{SettleIn, SettledOut, SettlementIn};
pub use stats::StatsOut;
pub use time::{Time, TimeOut};
pub use timer::{TimerOut, TimersOut};
pub use transport::{ExportOut, ImportIn, TransportIn, TransportOut};
