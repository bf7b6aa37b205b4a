//! What a run is told.

use std::path::PathBuf;

use url::Url;

use crate::guard::Owner;

mod check;

pub use check::Unused;
pub(crate) use check::check;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Durable schedules in batches.
    Ingest,
    /// How late firings arrive that are due over time.
    Lateness,
    /// Everything due at one instant.
    HotSecond,
    /// Durable cancellations in batches, in random order.
    Cancel,
    /// The same ids replaced over and over.
    Debounce,
    /// Schedules, changes, cancellations and firings at once.
    Mixed,
    /// A quiet namespace alone, beside a dead receiver, and beside one that is served at full speed.
    Isolation,
    /// A kill -9 under load and what comes after it.
    Recovery,
    /// Many namespaces with a few timers each, due within one second.
    Namespaces,
}

impl Subject {
    /// Its word.
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

/// How the server is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportKind {
    /// HTTP/1.1 with JSON, a connection for each call under way.
    Http,
    /// gRPC.
    Grpc,
}

impl TransportKind {
    /// Its word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Grpc => "grpc",
        }
    }
}

/// Where the server is.
#[derive(Clone, Debug)]
pub enum Place {
    /// One that runs.
    At(Url, Owner),
    /// One that is started for the run, with its data in a new folder in `dir`.
    Own {
        /// The `duly` binary.
        bin: PathBuf,
        /// Decides which disk is measured; the system's folder for temporary files when absent.
        dir: Option<PathBuf>,
    },
}

/// Whether the floors of the machine are measured first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Floors {
    /// They are: a few seconds.
    Measured,
    /// They are not.
    Left,
}

/// A run.
#[derive(Clone, Debug)]
pub struct Options {
    /// What is measured.
    pub subject: Subject,
    /// The server.
    pub place: Place,
    /// How it is spoken to.
    pub transport: TransportKind,
    /// Timers a second; as many as the calls under way can carry, or the subject's own number, when
    /// absent.
    pub rate: Option<u32>,
    /// Timers in all, where rate and seconds do not say it; the subject's own number when absent.
    pub timers: Option<u32>,
    /// How long is measured; 10 s when absent.
    pub seconds: Option<u64>,
    /// Bytes of each payload.
    pub payload_bytes: usize,
    /// Timers of a call; 1000, or with a rate as many as make 100 calls a second, when absent.
    pub batch: Option<u32>,
    /// Calls under way at once; 8 when absent.
    pub in_flight: Option<u32>,
    /// How consumers get firings; by lease calls when absent.
    pub pull: Option<Pull>,
    /// Namespaces; 1000 when absent.
    pub namespaces: Option<u32>,
    /// Timers of each of them; 10 when absent.
    pub each: Option<u32>,
    /// Floors.
    pub floors: Floors,
}

/// How consumers get firings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pull {
    /// A call each time, which waits for the first.
    Lease,
    /// One stream, on which the consumer gives credits; gRPC only.
    Consume,
}

impl Pull {
    /// Its word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lease => "lease",
            Self::Consume => "consume",
        }
    }
}

#[cfg(test)]
mod tests;
