//! Options of a run.

use std::path::{Path, PathBuf};

use url::Url;

use crate::{guard::Owner, transport::TransportKind};

mod check;

pub use check::Unused;
pub(crate) use check::check;

/// Subject of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Durable schedule calls in batches.
    Ingest,
    /// Lateness of firings with spread due times.
    Lateness,
    /// All timers due at one instant.
    HotSecond,
    /// Durable cancels in batches, in random order.
    Cancel,
    /// Repeated replacement of the same ids.
    Debounce,
    /// Repeated schedule calls of existing timers.
    Repeat,
    /// Durable reschedules in batches, in random order.
    Reschedule,
    /// Schedule calls, changes, cancels and firings at the same time.
    Mixed,
    /// A quiet namespace: alone, beside a dead receiver, and beside a namespace at full speed.
    Isolation,
    /// A kill -9 under load, and the restart.
    Recovery,
    /// Many namespaces with a few timers each, due within one second.
    Namespaces,
    /// Pages of lists over many namespaces, during schedules at full speed.
    Lists,
    /// Firings that become dead letters.
    DeadLetters,
    /// Lease calls that wait.
    Waiting,
    /// Memory and disk of pending timers, CPU without work, and starts after kill -9.
    Size,
}

impl Subject {
    /// Returns the name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ingest => "ingest",
            Self::Lateness => "lateness",
            Self::HotSecond => "hot-second",
            Self::Cancel => "cancel",
            Self::Debounce => "debounce",
            Self::Repeat => "repeat",
            Self::Reschedule => "reschedule",
            Self::Mixed => "mixed",
            Self::Isolation => "isolation",
            Self::Recovery => "recovery",
            Self::Namespaces => "namespaces",
            Self::Lists => "lists",
            Self::DeadLetters => "dead-letters",
            Self::Waiting => "waiting",
            Self::Size => "size",
        }
    }
}

/// Server of a run.
#[derive(Clone, Debug)]
pub enum Place {
    /// A running server.
    At(Url, Owner),
    /// A server that the run starts, with its data in a new folder in `dir`.
    Own {
        /// The `duly` binary.
        bin: PathBuf,
        /// Parent of the data folder; it decides which disk is measured. Default: the system's
        /// folder for temporary files.
        dir: Option<PathBuf>,
    },
}

impl Place {
    /// Returns the parent of the data folder, if the user chose one.
    pub(crate) fn dir(&self) -> Option<&Path> {
        match self {
            Self::At(..) => None,
            Self::Own { dir, .. } => dir.as_deref(),
        }
    }
}

/// Tells whether the baselines of the machine are measured first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Baselines {
    /// They are measured; this takes a few seconds.
    Measured,
    /// They are not measured.
    Left,
}

/// Options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Subject to measure.
    pub subject: Subject,
    /// Server to measure.
    pub place: Place,
    /// Way to the store.
    pub transport: TransportKind,
    /// Timers per second. If absent: the subject's default, or as many as the calls in flight can
    /// carry.
    pub rate: Option<u32>,
    /// Number of timers, unless rate and seconds determine it; the subject's default if absent.
    pub timers: Option<u32>,
    /// Duration of the measurement in seconds; 10 if absent.
    pub seconds: Option<u64>,
    /// Bytes of each payload.
    pub payload_bytes: usize,
    /// Timers per call. If absent: 1000, or with a rate as many as make 100 calls a second.
    pub batch: Option<u32>,
    /// Calls in flight at once; 8 if absent.
    pub in_flight: Option<u32>,
    /// Method by which firings are delivered; lease calls if absent.
    pub delivery: Option<Delivery>,
    /// Timers that are pending beside the measured ones; none if absent.
    pub pending: Option<u32>,
    /// `true`: the page cache is emptied before the measurement.
    pub cold: bool,
    /// Number of namespaces; 1000 if absent.
    pub namespaces: Option<u32>,
    /// Timers of each namespace; 10 if absent.
    pub each: Option<u32>,
    /// Measurement of the baselines.
    pub baselines: Baselines,
}

/// Method by which firings are delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Lease calls, each of which waits for the first firing.
    Lease,
    /// One stream per consumer, with credits; gRPC only.
    Consume,
    /// Webhooks to a receiver on this machine.
    Webhook,
}

impl Delivery {
    /// Returns the name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lease => "lease",
            Self::Consume => "consume",
            Self::Webhook => "webhook",
        }
    }
}

#[cfg(test)]
mod tests;
