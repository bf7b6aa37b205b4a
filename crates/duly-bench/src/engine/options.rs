//! Options of the engine benchmark.

use std::{path::PathBuf, time::Duration};

use clap::{Args, value_parser};

use super::Name;

/// Default parent of the run's folder.
const DEFAULT_PARENT: &str = "target/duly-bench";
/// Default number of firings of a hot second; `timers` if that is less.
const HOT_DEFAULT: u32 = 1_000_000;

/// Options of the engine benchmark.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Timers of each row.
    #[arg(long, default_value_t = 1_000_000, value_parser = value_parser!(u32).range(1..=1_000_000_000))]
    pub timers: u32,
    /// Timers per call.
    #[arg(long, default_value_t = 1_000, value_parser = value_parser!(u32).range(1..=10_000))]
    pub batch: u32,
    /// Bytes of each payload.
    #[arg(long, default_value_t = 128, value_parser = value_parser!(u32).range(0..=262_144))]
    pub payload_bytes: u32,
    /// Calls that a pipelining writer keeps in flight.
    #[arg(long, default_value_t = 4, value_parser = value_parser!(u32).range(1..=1_000))]
    pub in_flight: u32,
    /// Rounds; the report shows their median.
    #[arg(long, default_value_t = 1, value_parser = value_parser!(u32).range(1..=1_000))]
    pub runs: u32,
    /// Rows to measure, separated by commas; `all`, or no name, for every row.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub rows: Vec<Name>,
    /// Folder for the temporary folder of the run; it decides which disk is measured. Default:
    /// target/duly-bench in the current directory.
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// Measures even if the folder is on a file system in memory.
    #[arg(long)]
    pub allow_memory_disk: bool,
    /// Measures even if the disk seems to have too little free space.
    #[arg(long)]
    pub allow_low_disk: bool,
    /// Rows latency and lists: duration in seconds.
    #[arg(long, default_value_t = 10, value_parser = value_parser!(u32).range(1..=3_600))]
    pub seconds: u32,
    /// Row latency: timers scheduled per second.
    #[arg(long, default_value_t = 200_000, value_parser = value_parser!(u32).range(1..=10_000_000))]
    pub rate: u32,
    /// Row latency: timers scheduled per call.
    #[arg(long, default_value_t = 200, value_parser = value_parser!(u32).range(1..=10_000))]
    pub latency_batch: u32,
    /// Row latency: also cancels and fires timers, each at a tenth of the rate.
    #[arg(long)]
    pub mixed: bool,
    /// Row latency: writes the commit latency of each tenth of a second to this file, as CSV.
    #[arg(long, value_name = "FILE")]
    pub series: Option<PathBuf>,
    /// Row latency: draws commit latency and throughput over time to this file, as SVG.
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Rows hot and hot-claim: timers due at one instant. Default: 1 M, or --timers if that is
    /// less.
    #[arg(long, value_parser = value_parser!(u32).range(1..))]
    pub hot: Option<u32>,
    /// Row dead: number of dead letters. Default: --timers.
    #[arg(long, value_parser = value_parser!(u32).range(2..))]
    pub dead: Option<u32>,
    /// Longest wait, in seconds, for the files of a store to stop changing.
    #[arg(long, default_value_t = 60, value_parser = value_parser!(u32).range(1..=3_600))]
    pub settle_seconds: u32,
    /// Row reclaim: longest wait, in seconds, for space after cancels.
    #[arg(long, default_value_t = 120, value_parser = value_parser!(u32).range(1..=3_600))]
    pub reclaim_seconds: u32,
    /// Row idle: duration in seconds.
    #[arg(long, default_value_t = 10, value_parser = value_parser!(u32).range(1..=3_600))]
    pub idle_seconds: u32,
    /// The `duly-bench` binary for child processes; the running program if absent.
    #[arg(skip)]
    pub program: Option<PathBuf>,
}

impl Options {
    /// Returns the parent of the run's temporary folder.
    pub(crate) fn parent(&self) -> PathBuf {
        self.dir.clone().unwrap_or_else(|| DEFAULT_PARENT.into())
    }

    /// Returns `true` if a row is requested. Without names all rows are.
    pub(crate) fn wants(&self, name: Name) -> bool {
        self.rows.is_empty() || self.rows.contains(&Name::All) || self.rows.contains(&name)
    }

    /// Returns `true` if any of these rows is requested.
    pub(crate) fn wants_any(&self, names: &[Name]) -> bool {
        names.iter().any(|name| self.wants(*name))
    }

    /// Returns the number of firings of a hot second.
    pub(crate) fn hot(&self) -> u32 {
        self.hot.unwrap_or_else(|| self.timers.min(HOT_DEFAULT))
    }

    /// Returns the number of dead letters.
    pub(crate) fn dead(&self) -> u32 {
        self.dead.unwrap_or(self.timers)
    }

    /// Returns the duration of the rows `latency` and `lists`.
    pub(crate) fn duration(&self) -> Duration {
        Duration::from_secs(self.seconds.into())
    }
}
