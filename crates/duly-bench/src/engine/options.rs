//! What can be asked of the engine benchmark.

use std::{path::PathBuf, time::Duration};

use clap::{Args, value_parser};

use super::Name;

/// Where the default folder is made.
const DEFAULT_PARENT: &str = "target/duly-bench";
/// Firings of a hot second, unless fewer timers are asked for.
const HOT_DEFAULT: u32 = 1_000_000;

/// What the engine benchmark takes.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Timers of each row.
    #[arg(long, default_value_t = 1_000_000, value_parser = value_parser!(u32).range(1..=1_000_000_000))]
    pub timers: u32,
    /// Timers of one call.
    #[arg(long, default_value_t = 1_000, value_parser = value_parser!(u32).range(1..=10_000))]
    pub batch: u32,
    /// Bytes of each payload.
    #[arg(long, default_value_t = 128, value_parser = value_parser!(u32).range(0..=262_144))]
    pub payload_bytes: u32,
    /// Calls that a pipelining writer keeps under way.
    #[arg(long, default_value_t = 4, value_parser = value_parser!(u32).range(1..=1_000))]
    pub in_flight: u32,
    /// Rounds; the median of them is shown.
    #[arg(long, default_value_t = 1, value_parser = value_parser!(u32).range(1..=1_000))]
    pub runs: u32,
    /// Only these rows, separated by commas; `all`, or nothing, for every one.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub rows: Vec<Name>,
    /// Folder in which a fresh one is made and removed; decides which disk is measured. Default:
    /// target/duly-bench in the current directory.
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// Measure although the folder is on a file system in memory.
    #[arg(long)]
    pub allow_memory_disk: bool,
    /// Measure although the disk seems to have too little room.
    #[arg(long)]
    pub allow_low_disk: bool,
    /// Row latency, and lists: for how long.
    #[arg(long, default_value_t = 10, value_parser = value_parser!(u32).range(1..=3_600))]
    pub seconds: u32,
    /// Row latency: schedules per second.
    #[arg(long, default_value_t = 200_000, value_parser = value_parser!(u32).range(1..=10_000_000))]
    pub rate: u32,
    /// Row latency: schedules of one call.
    #[arg(long, default_value_t = 200, value_parser = value_parser!(u32).range(1..=10_000))]
    pub latency_batch: u32,
    /// Row latency: cancels and firings go on beside, each a tenth of the rate.
    #[arg(long)]
    pub mixed: bool,
    /// Row latency: write commit latency by the tenth of a second to this file, as CSV.
    #[arg(long, value_name = "FILE")]
    pub series: Option<PathBuf>,
    /// Row latency: draw commit latency and throughput over time into this file, as SVG.
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Firings of a hot second (rows hot and hot-claim). Default: 1 M, or --timers if that is less.
    #[arg(long, value_parser = value_parser!(u32).range(1..))]
    pub hot: Option<u32>,
    /// Dead letters of row dead. Default: --timers.
    #[arg(long, value_parser = value_parser!(u32).range(2..))]
    pub dead: Option<u32>,
    /// Longest wait for the files of a store to stop changing.
    #[arg(long, default_value_t = 60, value_parser = value_parser!(u32).range(1..=3_600))]
    pub settle_seconds: u32,
    /// Longest wait for space after cancels (row reclaim).
    #[arg(long, default_value_t = 120, value_parser = value_parser!(u32).range(1..=3_600))]
    pub reclaim_seconds: u32,
    /// How long row idle looks.
    #[arg(long, default_value_t = 10, value_parser = value_parser!(u32).range(1..=3_600))]
    pub idle_seconds: u32,
    /// The `duly-bench` binary, for what needs a process of its own; the running one when absent.
    #[arg(skip)]
    pub program: Option<PathBuf>,
}

impl Options {
    /// The folder in which a fresh one is made.
    pub(crate) fn parent(&self) -> PathBuf {
        self.dir.clone().unwrap_or_else(|| DEFAULT_PARENT.into())
    }

    /// Whether a row is asked for; without any name all are.
    pub(crate) fn wants(&self, name: Name) -> bool {
        self.rows.is_empty() || self.rows.contains(&Name::All) || self.rows.contains(&name)
    }

    /// Whether any of these rows is asked for.
    pub(crate) fn wants_any(&self, names: &[Name]) -> bool {
        names.iter().any(|name| self.wants(*name))
    }

    /// Firings of a hot second.
    pub(crate) fn hot(&self) -> u32 {
        self.hot.unwrap_or_else(|| self.timers.min(HOT_DEFAULT))
    }

    /// Dead letters.
    pub(crate) fn dead(&self) -> u32 {
        self.dead.unwrap_or(self.timers)
    }

    /// How long rows that go by time go.
    pub(crate) fn duration(&self) -> Duration {
        Duration::from_secs(self.seconds.into())
    }
}
