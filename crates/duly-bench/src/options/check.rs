//! Checks of the options: those that a subject uses, and their limits.

use anyhow::{Result, ensure};

use super::{Delivery, Options, Place, Subject};
use crate::transport::{MARK_BYTES, TransportKind};

/// Most timers of a run: the ledger keeps five bytes each, and a random order takes four more.
const TIMERS_MAX: u64 = 200_000_000;
/// Most operations of a run with a full history: about 200 bytes each are kept.
const HISTORY_MAX: u64 = 3_000_000;
/// Most operations per call: the limit of the server.
const BATCH_MAX: u32 = 10_000;
/// Most calls in flight.
const IN_FLIGHT_MAX: u32 = 1_000;
/// Most bytes of a payload: a batch must stay below the limit of the server.
const PAYLOAD_BYTES_MAX: usize = 65_536;
/// Most seconds.
const SECONDS_MAX: u64 = 3_600;
/// Most namespaces.
const NAMESPACES_MAX: u32 = 1_000_000;
/// Most timers of each of many namespaces: one call sends them.
const EACH_MAX: u32 = 1_000;

/// An option that the subject does not use.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("--{option} is not for {subject}: allowed there are {allowed}{also}")]
pub struct Unused {
    /// Name of the option, without dashes.
    pub option: &'static str,
    subject: &'static str,
    allowed: String,
    also: &'static str,
}

impl Subject {
    /// Returns the options that the subject uses, among those that not all subjects use.
    const fn uses(self) -> &'static [&'static str] {
        match self {
            Self::Recovery => &["rate", "timers", "seconds", "batch", "in-flight"],
            Self::Ingest | Self::Debounce => {
                &["rate", "timers", "seconds", "batch", "in-flight", "pending"]
            }
            Self::Cancel | Self::Repeat | Self::Reschedule => {
                &["rate", "timers", "seconds", "batch", "in-flight", "pending", "cold"]
            }
            Self::Lateness => &["rate", "seconds", "batch", "delivery", "pending"],
            Self::HotSecond => &["timers", "batch", "delivery", "pending", "cold"],
            Self::Mixed => &["rate", "seconds", "batch", "in-flight"],
            Self::Isolation => &["rate", "timers", "seconds"],
            Self::Namespaces => &["namespaces", "each"],
            Self::Lists => &["namespaces", "each", "seconds", "batch", "in-flight", "pending"],
            Self::DeadLetters => &["timers", "batch", "pending"],
            Self::Waiting => &["timers", "seconds", "pending"],
            Self::Size => &["timers", "seconds"],
        }
    }

    /// Returns `true` if the subject needs a server, and a store in this process is not enough.
    const fn needs_server(self) -> bool {
        self.has_history() || matches!(self, Self::Isolation | Self::Namespaces | Self::Size)
    }

    /// Returns `true` if the run determines the number of timers by `--rate`, where it is given.
    const fn is_fixed_by_rate(self) -> bool {
        matches!(self, Self::Ingest | Self::Cancel | Self::Repeat | Self::Reschedule)
    }

    const fn has_history(self) -> bool {
        matches!(self, Self::Mixed | Self::Recovery)
    }
}

impl Options {
    /// Returns an error for an option that is given and would change nothing.
    pub fn ensure_used(&self) -> Result<(), Unused> {
        let given = [
            ("rate", self.rate.is_some()),
            ("timers", self.timers.is_some()),
            ("seconds", self.seconds.is_some()),
            ("batch", self.batch.is_some()),
            ("in-flight", self.in_flight.is_some()),
            ("delivery", self.delivery.is_some()),
            ("pending", self.pending.is_some()),
            ("cold", self.cold),
            ("namespaces", self.namespaces.is_some()),
            ("each", self.each.is_some()),
        ];
        let uses = self.subject.uses();
        let both = self.subject.is_fixed_by_rate() && self.rate.is_some();
        for (option, is_given) in given {
            let is_used = uses.contains(&option) && !(both && option == "timers");
            if is_given && !is_used {
                let allowed = uses.iter().filter(|other| **other != option);
                let allowed: Vec<_> = allowed.map(|other| format!("--{other}")).collect();
                let also =
                    if both { "; with --rate the timers are rate times seconds" } else { "" };
                let (subject, allowed) = (self.subject.name(), allowed.join(", "));
                return Err(Unused { option, subject, allowed, also });
            }
        }
        Ok(())
    }

    /// Returns the duration of the measurement, in seconds.
    pub(crate) fn seconds(&self) -> u64 {
        self.seconds.unwrap_or(10)
    }

    /// Returns the number of calls in flight at once.
    pub(crate) fn in_flight(&self) -> u32 {
        self.in_flight.unwrap_or(8)
    }

    /// Returns the timers per second, if they are given or the subject has a default.
    pub(crate) fn paced(&self) -> Option<u32> {
        self.rate.or(match self.subject {
            Subject::Lateness | Subject::Mixed | Subject::Recovery => Some(2_000),
            Subject::Isolation => Some(200),
            _ => None,
        })
    }

    /// Returns the number of namespaces, and the timers of each.
    pub(crate) fn namespaces(&self) -> (u32, u32) {
        (self.namespaces.unwrap_or(1_000), self.each.unwrap_or(10))
    }

    /// Returns the number of operations of a run with a rate.
    pub(crate) fn paced_timers(&self) -> u64 {
        u64::from(self.paced().unwrap_or(0)) * self.seconds()
    }
}

/// Checks all options; returns the number of timers for the ledger.
pub(crate) fn check(options: &Options) -> Result<u64> {
    options.ensure_used()?;
    let subject = options.subject;
    let within = |what: &str, value: u64, least: u64, most: u64| {
        ensure!((least..=most).contains(&value), "{value} {what}: {least} to {most} are allowed");
        Ok(())
    };
    within("seconds", options.seconds(), 1, SECONDS_MAX)?;
    within("timers of a call", options.batch.unwrap_or(1).into(), 1, BATCH_MAX.into())?;
    within("calls under way", options.in_flight().into(), 1, IN_FLIGHT_MAX.into())?;
    let (namespaces, each) = options.namespaces();
    within("namespaces", namespaces.into(), 1, NAMESPACES_MAX.into())?;
    within("timers of each namespace", each.into(), 1, EACH_MAX.into())?;
    let least = if subject.has_history() { MARK_BYTES } else { 0 };
    let bytes = options.payload_bytes;
    ensure!(
        (least..=PAYLOAD_BYTES_MAX).contains(&bytes),
        "payloads of {bytes} bytes: {least} to {PAYLOAD_BYTES_MAX} are allowed for {}",
        subject.name()
    );
    ensure!(options.rate != Some(0), "a rate of 0: leave it out to send as fast as possible");
    let kind = options.transport;
    ensure!(
        options.delivery != Some(Delivery::Consume) || kind == TransportKind::Grpc,
        "--delivery consume is a stream of gRPC: say --transport grpc, or --delivery lease"
    );
    let is_in_process = kind == TransportKind::InProcess;
    ensure!(
        !is_in_process || (!subject.needs_server() && options.delivery != Some(Delivery::Webhook)),
        "--transport in-process has no server, and {} needs one: say --transport grpc or http",
        if subject.needs_server() { subject.name() } else { "--delivery webhook" }
    );
    let is_own = matches!(options.place, Place::Own { .. });
    let kills = matches!(subject, Subject::Recovery | Subject::Size);
    ensure!(
        is_own || !kills,
        "{} kills the server: it does so only with one of its own, so leave out --server",
        subject.name()
    );
    ensure!(
        is_own || !is_in_process,
        "--transport in-process opens a store of its own: leave out --server"
    );
    ensure!(
        is_own || !options.cold,
        "--cold empties the page cache of this machine: leave out --server"
    );
    if subject.has_history() {
        let operations = options.paced_timers();
        ensure!(
            (1..=HISTORY_MAX).contains(&operations),
            "{operations} operations: 1 to {HISTORY_MAX} are allowed for {}, because all of them are \
             kept for the checker; lower the rate or the seconds",
            subject.name()
        );
    }
    let timers = timers(options);
    ensure!(
        (1..=TIMERS_MAX).contains(&timers),
        "{timers} timers: 1 to {TIMERS_MAX} are allowed; lower the rate, the seconds or the timers"
    );
    Ok(timers)
}

fn timers(options: &Options) -> u64 {
    let given = |usual: u32| u64::from(options.timers.unwrap_or(usual));
    match options.subject {
        Subject::Lateness | Subject::Mixed => options.paced_timers(),
        subject if subject.is_fixed_by_rate() && options.rate.is_some() => options.paced_timers(),
        Subject::Debounce => given(10_000),
        Subject::Ingest
        | Subject::Repeat
        | Subject::Reschedule
        | Subject::Cancel
        | Subject::Size
        | Subject::DeadLetters
        | Subject::HotSecond => given(1_000_000),
        Subject::Recovery => given(100_000),
        Subject::Waiting => given(1_000),
        Subject::Isolation => 3 * options.paced_timers() + given(1_000_000),
        Subject::Namespaces | Subject::Lists => {
            let (namespaces, each) = options.namespaces();
            u64::from(namespaces) * u64::from(each)
        }
    }
}
