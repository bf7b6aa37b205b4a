//! The notice of a call that changed nothing: the reason, and how to change the timer nevertheless.

use duly_api::{CancelResponse, ForgetResponse, Unchanged, timer::CallEffect};
use duly_core::State;
use duly_store::TimerView;

use super::Admitted;

impl Admitted {
    /// Sets the notice of the response if the call changed nothing. `view` is the timer that was found.
    pub(crate) fn note_unchanged(&self, effect: CallEffect, view: &TimerView) {
        if let CallEffect::Unchanged(reason) = effect {
            self.set_notice(notice(reason, view));
        }
    }

    /// Sets the notice of the response if a cancel changed nothing.
    pub(crate) fn note_cancel(&self, cancelled: &CancelResponse) {
        if cancelled.already {
            let order = if cancelled.no_further_attempt { "stopped" } else { "cancelled" };
            self.set_notice(format!("nothing changed: the timer was {order} before"));
        }
    }

    /// Sets the notice of the response if there was nothing to remove.
    pub(super) fn note_forget(&self, removed: &ForgetResponse) {
        if *removed == ForgetResponse::default() {
            self.set_notice("nothing changed: nothing is left of this id".to_owned());
        }
    }
}

fn notice(reason: Unchanged, view: &TimerView) -> String {
    let stand = match view.state {
        State::Scheduled => format!("due at {}", view.due_at()),
        State::InFlight => "in flight".to_owned(),
        ended_or_waiting => ended_or_waiting.as_str().to_owned(),
    };
    let reason = match reason {
        Unchanged::Kept => format!("the id has a timer, {stand}, and if_exists is \"keep\""),
        Unchanged::AlreadyDue => format!("the timer is {stand} already"),
        Unchanged::SameRequest | Unchanged::Unspecified => {
            let effect =
                if view.state.is_pending() { "starts its time again" } else { "makes a new one" };
            format!("the same request made this timer, {stand}; if_exists \"restart\" {effect}")
        }
    };
    format!("nothing changed: {reason}")
}
