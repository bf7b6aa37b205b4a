//! What can be asked of the engine benchmark.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// Where the default folder is made.
const DEFAULT_PARENT: &str = "target/duly-bench";

/// What the engine benchmark takes.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Timers of each row.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..))]
    pub timers: u32,
    /// Timers of one call.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub batch: u32,
    /// Bytes of each payload.
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u32).range(0..=262_144))]
    pub payload_bytes: u32,
    /// Calls that a pipelining writer keeps under way.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub in_flight: u32,
    /// Rounds; the median of them is shown.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub runs: u32,
    /// Only these rows, separated by commas.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub rows: Vec<Name>,
    /// Folder in which a fresh one is made and removed; decides which disk is measured. Default:
    /// target/duly-bench in the current directory.
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// Measure although the folder is on a file system in memory.
    #[arg(long)]
    pub allow_memory_disk: bool,
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
        self.rows.is_empty() || self.rows.contains(&name)
    }
}

/// A row of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Name {
    /// The disk alone: append and fdatasync of the bytes of one batch, and of a batch of 64.
    Floor,
    /// Schedules in batches, one writer, several batches under way.
    Ingest,
    /// The same schedules again: nothing changes.
    Existing,
    /// Close and open again.
    Open,
    /// Reschedules in random order.
    Reschedule,
    /// Cancels in random order.
    Cancel,
    /// Schedules in batches, one writer, one batch at a time.
    IngestSerial,
    /// Schedules by 4 writers in batches of 64, each one batch at a time.
    #[value(name = "ingest-4x64")]
    Ingest4x64,
    /// All due at one instant: claim, read, durable ack.
    Fire,
    /// All due at one instant: claim and read only.
    Claim,
}

impl Name {
    /// Rows on one filled store, in their order; `Ingest` fills it in any case.
    pub(crate) const ON_FILLED: [Self; 5] =
        [Self::Ingest, Self::Existing, Self::Open, Self::Reschedule, Self::Cancel];
    /// Rows on a fresh store each.
    pub(crate) const ON_FRESH: [Self; 4] =
        [Self::IngestSerial, Self::Ingest4x64, Self::Fire, Self::Claim];

    /// Its name on the command line and in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Floor => "floor",
            Self::Ingest => "ingest",
            Self::Existing => "existing",
            Self::Open => "open",
            Self::Reschedule => "reschedule",
            Self::Cancel => "cancel",
            Self::IngestSerial => "ingest-serial",
            Self::Ingest4x64 => "ingest-4x64",
            Self::Fire => "fire",
            Self::Claim => "claim",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_one_name() {
        for name in Name::value_variants() {
            assert_eq!(name.to_possible_value().unwrap().get_name(), name.as_str());
        }
    }
}
