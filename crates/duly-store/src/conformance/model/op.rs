//! Operations with the same meaning on every store.
//!
//! They contain no token, delivery id or absolute time. A firing is named by the number of firings that were
//! claimed after it, and a time by its distance from now.

use duly_core::{
    Destination, Millis, Payload, RetryPolicy, Settings, TimerId,
    destination::LaneKey,
    schedule::{Change, IfExists, Tags},
};

use crate::{SettleVerdict, conformance::Restart, namespaces::Activity};

/// The time by which every step moves the clock.
pub(super) const STEP: Millis = Millis::from_ms(8);
/// The unit of all other moves of the clock, and of the distances of due times from now.
pub(super) const GRAIN_MS: u64 = 10_000;
/// Number of nodes that claim; they are numbered from 0.
pub(super) const NODES: u64 = 2;

/// One step.
#[derive(Debug, Clone, PartialEq)]
pub enum Op {
    /// Several commands in one call.
    Apply {
        /// The namespace.
        namespace: &'static str,
        /// The commands.
        requests: Vec<OpCommand>,
    },
    /// A claim.
    Claim(ClaimOp),
    /// Verdicts on firings, each named by the number of firings that were claimed after it.
    Settle(Vec<(u64, SettleVerdict)>),
    /// The end of a node.
    ReleaseNode(u64),
    /// A move of both clocks.
    Advance(Millis),
    /// A step of the wall clock alone.
    StepWall(i64),
    /// A restart of the store.
    Restart(Restart),
    /// A pause or a resume.
    SetActivity(&'static str, Activity),
    /// New settings.
    Put(&'static str, Box<Settings>),
}

/// One command.
#[derive(Debug, Clone, PartialEq)]
pub enum OpCommand {
    /// Schedule.
    Schedule {
        /// The id.
        id: TimerId,
        /// The due time.
        timing: Timing,
        /// The payload.
        payload: Option<Payload>,
        /// Its tags.
        tags: Tags,
        /// Its own destination.
        destination: Option<Destination>,
        /// Its own retry policy.
        retry: Option<RetryPolicy>,
        /// The time after which it expires.
        expire_after: Option<Millis>,
        /// The mode for an existing timer.
        if_exists: IfExists,
    },
    /// Reschedule.
    Reschedule {
        /// The id.
        id: TimerId,
        /// The new due time, if it changes.
        timing: Option<Timing>,
        /// The change of the payload.
        payload: Change<Payload>,
        /// The change of the destination.
        destination: Change<Destination>,
        /// The revision that it must have, if given.
        if_revision: Option<u32>,
    },
    /// Import one of several timers of this id, each with its own incarnation.
    Import {
        /// The id.
        id: TimerId,
        /// The incarnation.
        incarnation: u64,
        /// The occurrence.
        occurrence: u32,
        /// The due time.
        timing: Timing,
        /// The history of the timer.
        history: ImportedHistory,
    },
    /// Cancel.
    Cancel {
        /// The id.
        id: TimerId,
        /// The revision that it must have, if given.
        if_revision: Option<u32>,
        /// `true`: no attempt follows one that is under way.
        or_stop: bool,
    },
    /// Fire now.
    Fire(TimerId),
    /// Dead-letter it if it was due at least this long ago.
    DeadLetter(TimerId, Millis),
    /// Redrive the latest dead letter of an id.
    Redrive(TimerId, Millis),
    /// Redrive the dead letter of a firing, named by the number of firings that were claimed after it.
    RedriveFiring(u64, Millis),
    /// Remove the tombstone of an id.
    Forget(TimerId),
    /// Purge the latest dead letter of an id.
    Purge(TimerId),
    /// Purge the dead letter of a firing, named by the number of firings that were claimed after it.
    PurgeFiring(u64),
}

/// The history of a timer that is imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportedHistory {
    /// Never attempted.
    First,
    /// Attempted once; the next attempt is at its due time.
    Retry,
    /// A dead letter.
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
pub struct ClaimOp {
    /// The lanes.
    pub lanes: Vec<(&'static str, LaneKey)>,
    /// Maximum number of first attempts per lane.
    pub first_max: usize,
    /// Maximum number of retries per lane.
    pub retry_max: usize,
    /// Maximum bytes.
    pub bytes_max: u64,
    /// The length of the lease.
    pub lease: Option<Millis>,
    /// The node that claims; a consumer if absent.
    pub node: Option<u64>,
}
