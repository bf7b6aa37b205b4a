//! Operations that mean the same on every store.
//!
//! They name no token, delivery id or absolute time: a firing is named by how long ago it was
//! claimed, a time by its distance from now.

use duly_core::{
    Destination, Millis, Payload, RetryPolicy, Settings, TimerId,
    destination::LaneKey,
    schedule::{Change, IfExists, Tags},
};

use crate::{SettleVerdict, conformance::Restart, namespaces::Activity};

/// By how much every step moves the clock.
pub(super) const STEP: Millis = Millis::from_ms(8);
/// Everything else that moves the clock, or a due time away from now, is a multiple of this.
pub(super) const GRAIN_MS: u64 = 10_000;
/// Nodes that claim: 0 to this, exclusive.
pub(super) const NODES: u64 = 2;

/// One step.
#[derive(Debug, Clone, PartialEq)]
pub enum Op {
    /// Some commands in one call.
    Apply {
        /// In which namespace.
        namespace: &'static str,
        /// What.
        requests: Vec<Request>,
    },
    /// A claim.
    Claim(Claiming),
    /// Verdicts on firings, each named by how many were claimed after it.
    Settle(Vec<(u64, SettleVerdict)>),
    /// A node is gone.
    ReleaseNode(u64),
    /// Both clocks move on.
    Advance(Millis),
    /// The wall clock alone steps.
    StepWall(i64),
    /// The store is closed and opened.
    Restart(Restart),
    /// A pause or its end.
    SetActivity(&'static str, Activity),
    /// New settings.
    Put(&'static str, Box<Settings>),
}

/// One command.
#[derive(Debug, Clone, PartialEq)]
pub enum Request {
    /// Schedule.
    Schedule {
        /// The id.
        id: TimerId,
        /// When.
        timing: Timing,
        /// What.
        payload: Option<Payload>,
        /// Its tags.
        tags: Tags,
        /// Where to.
        destination: Option<Destination>,
        /// Its own policy.
        retry: Option<RetryPolicy>,
        /// When it is too late.
        expire_after: Option<Millis>,
        /// What about an existing one.
        if_exists: IfExists,
    },
    /// Reschedule.
    Reschedule {
        /// The id.
        id: TimerId,
        /// To when, if to another time.
        timing: Option<Timing>,
        /// To what.
        payload: Change<Payload>,
        /// Where to.
        destination: Change<Destination>,
        /// Only at this revision.
        if_revision: Option<u32>,
    },
    /// Import one of a few timers of this id, each with an incarnation of its own.
    Import {
        /// The id.
        id: TimerId,
        /// Which of them.
        incarnation: u64,
        /// Which of its firings.
        occurrence: u32,
        /// When it is due.
        timing: Timing,
        /// As what it comes.
        comes: Comes,
    },
    /// Cancel.
    Cancel {
        /// The id.
        id: TimerId,
        /// Only at this revision.
        if_revision: Option<u32>,
    },
    /// Fire now.
    Fire(TimerId),
    /// Give up if it was due so long ago.
    DeadLetter(TimerId, Millis),
    /// Redrive the latest dead letter of an id.
    Redrive(TimerId, Millis),
    /// Redrive the dead letter of a firing, named by how many were claimed after it.
    RedriveFiring(u64, Millis),
    /// Purge the latest dead letter of an id.
    Purge(TimerId),
    /// Purge the dead letter of a firing, named by how many were claimed after it.
    PurgeFiring(u64),
}

/// As what a timer is imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comes {
    /// Never tried.
    First,
    /// Tried once, to be tried again at its due time.
    Retry,
    /// Given up.
    Dead,
}

/// A due time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timing {
    /// As an absolute time, this many milliseconds from now.
    At(i64),
    /// As a delay.
    After(Millis),
}

/// A claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claiming {
    /// Which lanes.
    pub lanes: Vec<(&'static str, LaneKey)>,
    /// Most first attempts per lane.
    pub first_max: usize,
    /// Most retries per lane.
    pub retry_max: usize,
    /// Most bytes.
    pub bytes_max: u64,
    /// How long.
    pub lease: Option<Millis>,
    /// As which node; as a consumer when absent.
    pub node: Option<u64>,
}
