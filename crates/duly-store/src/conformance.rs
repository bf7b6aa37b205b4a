//! The conformance suite: test cases that every store must pass unchanged.
//!
//! A store is given as a [`Harness`]: the store itself, and the means to move its clocks and to restart it.
//! [`cases`] lists the cases; `conformance/` has one file per topic. The name of a case starts with the
//! promises that it proves (`p1` to `p12` of [`crate::Store`], `t1` to `t28` of the project's list of
//! failure cases). Three ways to run them:
//!
//! * [`conformance_tests!`](crate::conformance_tests) creates one `#[test]` for each case.
//! * [`run_all`] runs all cases and reports the failures by name (the canaries use it).
//! * [`model::compare`] runs the same random operations on a store and on the reference store.
//!
//! No case sleeps or reads a clock: [`Harness::advance`] moves the time. If a harness cannot do what a case
//! needs (clock steps, restarts), the case returns that as its [`CaseResult`]. The caller of the suite decides if
//! that is a failure.

use std::{fmt, panic::AssertUnwindSafe, sync::Arc};

use duly_core::{Millis, Timestamp};
use futures::{FutureExt, future::BoxFuture};

use crate::Store;

mod access;
mod call;
mod cancel;
mod cases;
mod claim;
mod clock;
mod dead;
mod deployment;
mod durable;
mod fire;
mod forecast;
mod idle;
mod import;
mod intact;
mod lease;
mod limits;
mod list;
mod memory_harness;
pub mod model;
mod namespaces;
mod occurrence;
mod race;
mod reschedule;
mod rounds;
mod scene;
mod schedule;
mod settle;
mod several;
mod stand_in;
mod stats;
mod stop;
mod time;

pub use cases::cases;
pub use clock::ManualClock;
pub use memory_harness::MemoryHarness;
pub use rounds::{is_nightly, rounds, stride};
pub use several::SeveralShards;
pub use stand_in::StandIn;

/// Maximum number of namespaces of every store under test.
pub const NAMESPACES_MAX: u64 = 50;

/// A store under test, with its clocks and the means to restart it.
pub trait Harness: Send + Sync {
    /// Returns the store, which allows [`NAMESPACES_MAX`] namespaces; after a restart, the store that was
    /// opened last.
    fn store(&self) -> Arc<dyn Store>;

    /// Returns the store's wall clock.
    fn now(&self) -> Timestamp;

    /// Moves both clocks forward.
    fn advance(&self, by: Millis) -> BoxFuture<'_, ()>;

    /// Steps only the wall clock, in either direction; returns `None` if the harness cannot.
    fn step_wall(&self, by_ms: i64) -> Option<()>;

    /// Closes the store and opens it again; returns `None` if the store is not durable.
    fn restart(&self, how: Restart) -> BoxFuture<'_, Option<()>>;
}

/// The way in which a store is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restart {
    /// An orderly shutdown.
    Clean,
    /// Like kill -9: nothing runs any more, and nothing is flushed.
    Kill,
}

/// The extent to which a case ran without a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CaseResult {
    /// The case ran to its end.
    Whole,
    /// The case did not run, because the store is not durable.
    NotDurable,
    /// The case did not run, because the harness cannot step the wall clock.
    NoClockSteps,
    /// The case did not run, because nodes cannot share the store.
    NotShared,
    /// The case did not run, because the store keeps no audit log.
    NoAuditLog,
}

/// One case of the suite. It panics if the store breaks a promise.
#[derive(Clone, Copy)]
pub struct Case {
    /// Its name, which starts with the promises that it proves.
    pub name: &'static str,
    /// The file that defines it.
    pub topic: &'static str,
    run: for<'a> fn(&'a dyn Harness) -> BoxFuture<'a, CaseResult>,
}

impl Case {
    /// Returns the promises (`p4`) and failure cases (`t24`) that it proves, by its name.
    pub fn proves(&self) -> Vec<&'static str> {
        let numbered = |word: &&str| {
            let digits = word.strip_prefix(['p', 't']).unwrap_or("");
            !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
        };
        self.name.split('_').take_while(numbered).collect()
    }

    /// Runs it on a fresh harness.
    ///
    /// # Panics
    /// When the store breaks a promise.
    pub async fn run(&self, harness: &dyn Harness) -> CaseResult {
        (self.run)(harness).await
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Case({}::{})", self.topic, self.name)
    }
}

/// The result of a run of the whole suite.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Cases that ran to their end.
    pub passed: Vec<&'static str>,
    /// Cases that the harness could not run.
    pub skipped: Vec<&'static str>,
    /// Cases that failed, each with its panic message.
    pub failed: Vec<(&'static str, String)>,
}

impl Report {
    /// Returns the names of the failed cases.
    pub fn failed_names(&self) -> Vec<&'static str> {
        self.failed.iter().map(|(name, _)| *name).collect()
    }
}

/// Runs one case on a fresh harness. If the harness cannot run the case, its name is printed to standard
/// error, so that it does not look like a passed one.
///
/// # Panics
/// When there is no such case, or the store breaks a promise.
pub fn run_one<H: Harness + 'static>(name: &str, make: impl Fn() -> H) -> CaseResult {
    let all = cases();
    let case = all.iter().find(|case| case.name == name);
    let case = case.unwrap_or_else(|| panic!("there is no case {name}"));
    let ran = block_on(async {
        let harness = make();
        case.run(&harness).await
    });
    if ran != CaseResult::Whole {
        eprintln!("SKIPPED {name}: {ran:?}");
    }
    ran
}

/// Runs every case, each on a fresh harness, and reports all failures.
pub fn run_all<H: Harness + 'static>(make: impl Fn() -> H) -> Report {
    let mut report = Report::default();
    for case in cases() {
        let outcome = block_on(async {
            let harness = make();
            AssertUnwindSafe(case.run(&harness)).catch_unwind().await
        });
        match outcome {
            Ok(CaseResult::Whole) => report.passed.push(case.name),
            Ok(
                CaseResult::NotDurable
                | CaseResult::NoClockSteps
                | CaseResult::NotShared
                | CaseResult::NoAuditLog,
            ) => report.skipped.push(case.name),
            Err(panic) => {
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
                report.failed.push((case.name, text.unwrap_or_default()));
            }
        }
    }
    report
}

pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime of one thread needs no more than an event queue of the system");
    runtime.block_on(work)
}

#[cfg(test)]
mod canary;
#[cfg(test)]
mod tests;
