//! The arguments that name a namespace or a timer.

use duly_core::{NamespaceName, TimerId};
use reqwest::Method;

use super::values;
use crate::{cli::Session, http::Call};

/// A namespace.
#[derive(clap::Args)]
pub(crate) struct NamespaceArg {
    /// The namespace
    #[arg(value_parser = values::namespace)]
    pub(crate) namespace: NamespaceName,
}

/// A timer of a namespace.
#[derive(clap::Args)]
pub(crate) struct TimerArg {
    #[command(flatten)]
    pub(crate) named: NamespaceArg,
    /// The timer's id
    #[arg(value_parser = values::timer_id)]
    pub(crate) id: TimerId,
}

impl TimerArg {
    /// Returns a call about the timer.
    pub(crate) fn call<'a>(&self, method: Method, session: &'a Session) -> Call<'a> {
        let below = ["timers", self.id.as_str()];
        session.http.namespace(method, &self.named.namespace, &below)
    }
}
