//! A change of one id.

use duly_core::{Millis, Tombstone, operate::QuotaUse, totals::Total};
use duly_record::packed::Record;

/// A change of one id. Parts that are left out stay as they are.
#[derive(Debug, Default)]
pub struct Draft {
    /// The new state of the live timer.
    pub live: Option<LiveChange>,
    /// `true`: the present tombstone is dropped.
    pub drop_tombstone: bool,
    /// The tombstone that an ended timer leaves.
    pub ended: Option<Tombstone>,
    /// A new dead letter. A payload that is stored apart is that of the live timer, and moves to it.
    pub dead_letter: Option<Box<Record>>,
    /// `true`: the dead letter of the case is removed. Its payload goes with it, or to the live timer.
    pub removes_dead_letter: bool,
    /// Limits of the namespace at which it is refused.
    pub quota_use: QuotaUse,
    /// Totals of the namespace that rise by one.
    pub counts: &'static [Total],
}

/// New state of the live timer.
#[derive(Debug)]
pub enum LiveChange {
    /// It is gone.
    Removed,
    /// The timer without a lease.
    Put(Box<Record>),
    /// The timer, stopped; its lease stays.
    Stopped(Box<Record>),
    /// The timer as it was; its lease ends this long from now.
    Extended(Millis),
}
