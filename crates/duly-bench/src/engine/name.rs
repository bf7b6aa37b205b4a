//! Names of the rows, and the order in which they run.

use clap::ValueEnum;

/// A row of the report, or several rows that one workload measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Name {
    /// Every row.
    All,
    /// The disk alone: append and fdatasync of the bytes of one batch, and of a batch of 64.
    Floor,
    /// Scheduling in batches: one writer, several batches in flight.
    Ingest,
    /// The same schedule calls again: nothing changes.
    Existing,
    /// Clean close of the store, and a new open.
    Open,
    /// Rescheduling in random order.
    Reschedule,
    /// Rescheduling in random order, with an empty page cache.
    RescheduleCold,
    /// Cancels in random order.
    Cancel,
    /// Scheduling in batches: one writer, one batch at a time.
    IngestSerial,
    /// Scheduling by 4 writers in batches of 64, each one batch at a time.
    #[value(name = "ingest-4x64")]
    Ingest4x64,
    /// All timers due at one instant: claim, read, durable ack.
    Fire,
    /// All timers due at one instant: claim and read only.
    Claim,
    /// Like `fire`, with an empty page cache.
    FireCold,
    /// Commits at scheduled times (open loop), beside pending timers.
    Latency,
    /// Many timers due at one instant, beside pending timers: claim, read, durable ack.
    Hot,
    /// Many timers due at one instant, beside pending timers: claim and read only.
    HotClaim,
    /// Memory of a process that filled a store, and of one that opened it.
    Resident,
    /// Disk space of pending timers, right after scheduling and after background work has settled.
    Disk,
    /// Bytes written to the disk per byte of the timers.
    Writes,
    /// CPU of a store without work.
    Idle,
    /// Start after kill -9 during ingest, with a warm page cache, then with a cold one
    /// (`killed-cold`).
    Killed,
    /// Pages of lists over 1000 namespaces during full ingest.
    Lists,
    /// Disk space after nine of ten timers were cancelled.
    Reclaim,
    /// Dead letters: their making, then `redrive` of one half and `purge` of the other.
    Dead,
}

impl Name {
    /// Rows on one filled store, in order; `Ingest` fills it in any case.
    pub(crate) const ON_FILLED: [Self; 6] = [
        Self::Ingest,
        Self::Existing,
        Self::Open,
        Self::Reschedule,
        Self::RescheduleCold,
        Self::Cancel,
    ];
    /// Rows with a fresh store each.
    pub(crate) const ON_FRESH: [Self; 8] = [
        Self::IngestSerial,
        Self::Ingest4x64,
        Self::Fire,
        Self::Claim,
        Self::FireCold,
        Self::Lists,
        Self::Reclaim,
        Self::Dead,
    ];
    /// Rows on one store whose timers stay pending.
    pub(crate) const BESIDE_PENDING: [Self; 3] = [Self::Latency, Self::Hot, Self::HotClaim];
    /// Rows on one store in a child process.
    pub(crate) const ELSEWHERE: [Self; 5] =
        [Self::Resident, Self::Disk, Self::Writes, Self::Idle, Self::Killed];

    /// Returns the name on the command line and in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Floor => "floor",
            Self::Ingest => "ingest",
            Self::Existing => "existing",
            Self::Open => "open",
            Self::Reschedule => "reschedule",
            Self::RescheduleCold => "reschedule-cold",
            Self::Cancel => "cancel",
            Self::IngestSerial => "ingest-serial",
            Self::Ingest4x64 => "ingest-4x64",
            Self::Fire => "fire",
            Self::Claim => "claim",
            Self::FireCold => "fire-cold",
            Self::Latency => "latency",
            Self::Hot => "hot",
            Self::HotClaim => "hot-claim",
            Self::Resident => "resident",
            Self::Disk => "disk",
            Self::Writes => "writes",
            Self::Idle => "idle",
            Self::Killed => "killed",
            Self::Lists => "lists",
            Self::Reclaim => "reclaim",
            Self::Dead => "dead",
        }
    }

    /// Returns how often, at worst, a row writes the record of each timer before space is freed.
    pub(crate) const fn writes_each(self) -> f64 {
        match self {
            Self::All | Self::Floor => 0.0,
            // One schedule record, and then a lease, a tombstone or a second whole record.
            Self::Reschedule | Self::RescheduleCold | Self::Cancel | Self::Reclaim | Self::Dead => {
                3.0
            }
            Self::Fire | Self::Claim | Self::FireCold | Self::Lists => 2.5,
            _ => 2.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_one_name_and_one_place() {
        for name in Name::value_variants() {
            assert_eq!(name.to_possible_value().unwrap().get_name(), name.as_str());
            let places = [
                &Name::ON_FILLED[..],
                &Name::ON_FRESH,
                &Name::BESIDE_PENDING,
                &Name::ELSEWHERE,
                &[Name::All, Name::Floor],
            ];
            let found = places.iter().flat_map(|place| place.iter()).filter(|one| *one == name);
            assert_eq!(found.count(), 1, "{name:?}");
        }
    }
}
