//! The limits at which operations are refused, with their names in metrics.

/// A limit of a namespace or of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Limit {
    /// `limits.namespace.schedule_per_second` of a namespace.
    SchedulePerSecond,
    /// `limits.namespace.max_pending` of a namespace.
    MaxPending,
    /// `limits.namespace.max_dead` of a namespace.
    MaxDead,
    /// Free space on the disk, or a disk that fails.
    Disk,
    /// Memory of the index.
    Memory,
    /// Maximum size of a record in a segment of the journal.
    Segment,
}

impl Limit {
    /// Every limit.
    pub const ALL: [Self; 6] = [
        Self::SchedulePerSecond,
        Self::MaxPending,
        Self::MaxDead,
        Self::Disk,
        Self::Memory,
        Self::Segment,
    ];

    /// Returns its name in metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SchedulePerSecond => "schedule_per_second",
            Self::MaxPending => "max_pending",
            Self::MaxDead => "max_dead",
            Self::Disk => "disk",
            Self::Memory => "memory",
            Self::Segment => "segment",
        }
    }
}
