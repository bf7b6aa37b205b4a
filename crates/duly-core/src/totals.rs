//! The totals of a namespace, and the events that count in each.

use std::ops::Add;

use crate::{
    operate::{Cause, Effect},
    tombstone::Ended,
};

crate::named_enum! {
    /// A total of a namespace.
    pub enum Total {
        /// Timers that were created or replaced.
        Scheduled = "scheduled",
        /// Attempts that were claimed.
        Fired = "fired",
        /// Firings that were acknowledged.
        Delivered = "delivered",
        /// Attempts that ended without a confirmation.
        Failed = "failed",
        /// Timers that were cancelled.
        Cancelled = "cancelled",
        /// Changes by PATCH and fire.
        Rescheduled = "rescheduled",
        /// Firings that were dead-lettered.
        Dead = "dead",
    }
}

/// Monotonic totals of a namespace, one for each [`Total`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// [`Total::Scheduled`].
    pub scheduled: u64,
    /// [`Total::Fired`].
    pub fired: u64,
    /// [`Total::Delivered`].
    pub delivered: u64,
    /// [`Total::Failed`].
    pub failed: u64,
    /// [`Total::Cancelled`].
    pub cancelled: u64,
    /// [`Total::Rescheduled`].
    pub rescheduled: u64,
    /// [`Total::Dead`].
    pub dead: u64,
}

impl Add for Totals {
    type Output = Self;

    fn add(mut self, other: Self) -> Self {
        let Self { scheduled, fired, delivered, failed, cancelled, rescheduled, dead } = other;
        self.scheduled += scheduled;
        self.fired += fired;
        self.delivered += delivered;
        self.failed += failed;
        self.cancelled += cancelled;
        self.rescheduled += rescheduled;
        self.dead += dead;
        self
    }
}

impl Totals {
    /// Counts one event in each of these totals.
    pub fn count(&mut self, totals: &[Total]) {
        for total in totals {
            *self.total_mut(*total) += 1;
        }
    }

    fn total_mut(&mut self, total: Total) -> &mut u64 {
        match total {
            Total::Scheduled => &mut self.scheduled,
            Total::Fired => &mut self.fired,
            Total::Delivered => &mut self.delivered,
            Total::Failed => &mut self.failed,
            Total::Cancelled => &mut self.cancelled,
            Total::Rescheduled => &mut self.rescheduled,
            Total::Dead => &mut self.dead,
        }
    }
}

impl Cause {
    /// Returns the totals that count the write of a live timer.
    pub const fn totals_of_put(self) -> &'static [Total] {
        match self {
            Self::Created | Self::Replaced => &[Total::Scheduled],
            Self::Rescheduled => &[Total::Rescheduled],
            Self::AttemptFailed => &[Total::Failed],
            Self::Redriven | Self::Expired | Self::Released | Self::Imported => &[],
        }
    }

    /// Returns the totals that count the write of a dead letter.
    pub const fn totals_of_dead_letter(self) -> &'static [Total] {
        match self {
            Self::AttemptFailed => &[Total::Failed, Total::Dead],
            _ => &[Total::Dead],
        }
    }
}

impl Ended {
    /// Returns the totals that count the end of a timer.
    pub const fn totals(self) -> &'static [Total] {
        match self {
            Self::Finished => &[Total::Delivered],
            Self::Cancelled => &[Total::Cancelled],
        }
    }
}

impl Effect {
    /// Returns the totals of the namespace that count the effect.
    pub fn totals(&self) -> &'static [Total] {
        match self {
            Self::Put(cause, _) => cause.totals_of_put(),
            Self::DeadLetter(cause, _) => cause.totals_of_dead_letter(),
            Self::End(tombstone) => tombstone.ended.totals(),
            Self::Purge | Self::Forget | Self::Extend(_) | Self::Stop(_) => &[],
        }
    }
}
