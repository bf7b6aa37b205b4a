//! The rows that can be asked for, and the order in which they run.

use clap::ValueEnum;

/// A row of the report, or several that come of one work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Name {
    /// Every row.
    All,
    /// The disk alone: append and fdatasync of the bytes of one batch, and of a batch of 64.
    Floor,
    /// Schedules in batches, one writer, several batches under way.
    Ingest,
    /// The same schedules again: nothing changes.
    Existing,
    /// Close in order and open again.
    Open,
    /// Reschedules in random order.
    Reschedule,
    /// Reschedules in random order, page cache emptied first.
    RescheduleCold,
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
    /// As `fire`, page cache emptied first.
    FireCold,
    /// Commits at their scheduled times whether or not the last was answered, beside pending timers.
    Latency,
    /// A hot second beside pending timers: claim, read, durable ack.
    Hot,
    /// A hot second beside pending timers: claim and read only.
    HotClaim,
    /// Memory of a process that filled a store, and of one that opened it.
    Resident,
    /// Disk that pending timers take, right after they were scheduled and after settling.
    Disk,
    /// Bytes written to the disk for each byte that was asked to be kept.
    Writes,
    /// CPU of a store that has nothing to do.
    Idle,
    /// Open after kill -9 during ingest, page cache warm, then cold (`killed-cold`).
    Killed,
    /// Pages of lists over 1000 namespaces during full ingest.
    Lists,
    /// Disk after nine of ten timers were cancelled.
    Reclaim,
    /// Dead letters: making them, then `redrive` of one half and `purge` of the other.
    Dead,
}

impl Name {
    /// Rows on one filled store, in their order; `Ingest` fills it in any case.
    pub(crate) const ON_FILLED: [Self; 6] = [
        Self::Ingest,
        Self::Existing,
        Self::Open,
        Self::Reschedule,
        Self::RescheduleCold,
        Self::Cancel,
    ];
    /// Rows on a fresh store each.
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
    /// Rows on one store in a process of its own.
    pub(crate) const ELSEWHERE: [Self; 5] =
        [Self::Resident, Self::Disk, Self::Writes, Self::Idle, Self::Killed];

    /// Its name on the command line and in reports.
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

    /// How often over, at the worst, a row writes the record of each timer before space is freed.
    pub(crate) const fn writes_each(self) -> f64 {
        match self {
            Self::All | Self::Floor => 0.0,
            // A schedule, and then a lease, a tombstone or a whole record more.
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
