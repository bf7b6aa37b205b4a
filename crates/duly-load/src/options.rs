//! What a run is told.

use std::{path::PathBuf, time::Duration};

use url::Url;

use crate::guard::Owner;

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
    /// Timers a second; as many as the calls under way can carry when absent.
    pub rate: Option<u32>,
    /// Timers in all, where rate and duration do not say it; the subject's own number when absent.
    pub timers: Option<u32>,
    /// How long is measured.
    pub duration: Duration,
    /// Bytes of each payload.
    pub payload_bytes: usize,
    /// Timers of a call; 1000, or with a rate as many as make 100 calls a second, when absent.
    pub batch: Option<u32>,
    /// Calls under way at once.
    pub in_flight: u32,
    /// Floors.
    pub floors: Floors,
}
