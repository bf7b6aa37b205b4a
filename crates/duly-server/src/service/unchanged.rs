//! The notice of a call that changed nothing: the reason, and how to change the timer nevertheless.

use duly_api::{Unchanged, timer::CallEffect};
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
