//! Options of a run.

use std::path::PathBuf;

use url::Url;

use crate::guard::Owner;

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
    /// Schedule calls, changes, cancels and firings at the same time.
    Mixed,
    /// A quiet namespace: alone, beside a dead receiver, and beside a namespace at full speed.
    Isolation,
    /// A kill -9 under load, and the restart.
    Recovery,
    /// Many namespaces with a few timers each, due within one second.
    Namespaces,
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
            Self::Mixed => "mixed",
            Self::Isolation => "isolation",
            Self::Recovery => "recovery",
            Self::Namespaces => "namespaces",
        }
    }
}

/// Protocol to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportKind {
    /// HTTP/1.1 with JSON, one connection per call in flight.
    Http,
    /// gRPC.
    Grpc,
}

impl TransportKind {
    /// Returns the name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Grpc => "grpc",
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

/// Tells whether the baselines of the machine are measured first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Floors {
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
    /// Protocol to use.
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
    /// Method by which consumers get firings; lease calls if absent.
    pub pull: Option<Pull>,
    /// Number of namespaces; 1000 if absent.
    pub namespaces: Option<u32>,
    /// Timers of each namespace; 10 if absent.
    pub each: Option<u32>,
    /// Measurement of the baselines.
    pub floors: Floors,
}

/// Method by which consumers get firings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pull {
    /// Lease calls, each of which waits for the first firing.
    Lease,
    /// One stream per consumer, with credits; gRPC only.
    Consume,
}

impl Pull {
    /// Returns the name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lease => "lease",
            Self::Consume => "consume",
        }
    }
}

#[cfg(test)]
mod tests;
