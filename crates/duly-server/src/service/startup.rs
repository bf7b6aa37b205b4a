//! The state of the server before the store is open.

use duly_api::cluster::Recovery;
use duly_core::Code;
use tokio::sync::watch;

use crate::{guard::Guard, problem::Problem, telemetry::Metrics};

/// The step of the startup that the server waits for.
#[derive(Debug, Clone)]
pub(crate) struct StartupProgress {
    /// The step as a sentence without its full stop.
    pub(crate) sentence: String,
    /// The progress, once something is read.
    pub(crate) progress: Option<Recovery>,
}

/// State for requests while the store opens; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct StartupState {
    /// The rules for callers.
    pub(crate) guard: Guard,
    /// The step that the server waits for.
    pub(crate) progress: watch::Receiver<StartupProgress>,
    /// The recorder behind `/metrics`.
    pub(crate) metrics: Metrics,
    /// `true`: callers need a key, and the keys are not known yet. No caller gets reasons or metrics.
    pub(crate) is_guarded: bool,
}

impl StartupState {
    /// Returns the problem of a call that needs the store.
    pub(crate) fn not_yet(&self) -> Problem {
        let mut detail = "the server is starting".to_owned();
        if !self.is_guarded {
            detail.push_str(": ");
            detail.push_str(&self.progress.borrow().sentence);
        }
        detail.push_str("; nothing was done, repeat the call");
        Problem::temporary(Code::Unavailable, detail)
    }
}
