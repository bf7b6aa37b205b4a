//! Checks of the options: those that a subject uses, and their limits.

use anyhow::{Result, ensure};

use super::{Options, Place, Pull, Subject, TransportKind};
use crate::transport::MARK_BYTES;

/// Most timers of a run: the ledger keeps five bytes each, and a random order takes four more.
const TIMERS_MAX: u64 = 50_000_000;
/// Most operations of a run with a full history: about 200 bytes each are kept.
const JUDGED_MAX: u64 = 3_000_000;
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
            Self::Ingest | Self::Cancel | Self::Debounce | Self::Recovery => {
                &["rate", "timers", "seconds", "batch", "in-flight"]
            }
            Self::Lateness => &["rate", "seconds", "batch", "pull"],
            Self::HotSecond => &["timers", "batch"],
            Self::Mixed => &["rate", "seconds", "batch", "in-flight"],
            Self::Isolation => &["rate", "timers", "seconds"],
            Self::Namespaces => &["namespaces", "each"],
        }
    }

    const fn is_judged(self) -> bool {
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
            ("pull", self.pull.is_some()),
            ("namespaces", self.namespaces.is_some()),
            ("each", self.each.is_some()),
        ];
        let uses = self.subject.uses();
        let fixed = matches!(self.subject, Subject::Ingest | Subject::Cancel);
        let both = fixed && self.rate.is_some();
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
    let least = if subject.is_judged() { MARK_BYTES } else { 0 };
    let bytes = options.payload_bytes;
    ensure!(
        (least..=PAYLOAD_BYTES_MAX).contains(&bytes),
        "payloads of {bytes} bytes: {least} to {PAYLOAD_BYTES_MAX} are allowed for {}",
        subject.name()
    );
    ensure!(options.rate != Some(0), "a rate of 0: leave it out to send as fast as possible");
    let kind = options.transport;
    ensure!(
        options.pull != Some(Pull::Consume) || kind == TransportKind::Grpc,
        "--pull consume is a stream of gRPC: say --transport grpc, or --pull lease"
    );
    ensure!(
        subject != Subject::Recovery || matches!(options.place, Place::Own { .. }),
        "recovery kills the server: it does so only with one of its own, so leave out --server"
    );
    if subject.is_judged() {
        let operations = options.paced_timers();
        ensure!(
            (1..=JUDGED_MAX).contains(&operations),
            "{operations} operations: 1 to {JUDGED_MAX} are allowed for {}, because all of them are \
             kept for the judge; lower the rate or the seconds",
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
        Subject::Ingest | Subject::Cancel if options.rate.is_some() => options.paced_timers(),
        Subject::Debounce => given(10_000),
        Subject::Ingest | Subject::Cancel | Subject::HotSecond => given(1_000_000),
        Subject::Recovery => given(100_000),
        Subject::Isolation => 3 * options.paced_timers() + given(1_000_000),
        Subject::Namespaces => {
            let (namespaces, each) = options.namespaces();
            u64::from(namespaces) * u64::from(each)
        }
    }
}
