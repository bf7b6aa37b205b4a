//! Check of reported due times: a delay must count from the call, with any clock of the node. (The
//! checker takes a reported due time as the intended one.)

use crate::history::{Action, Answer, Due, History};

/// Most complaints listed.
const LISTED_MAX: usize = 3;

/// Returns complaints about results whose due time does not match the requested delay.
pub(super) fn find_wrong_due_times(history: &History) -> Vec<String> {
    let wrong = history.operations.iter().filter_map(|operation| {
        let delay_ms = match operation.action {
            Action::Schedule { due: Due::In(delay_ms), .. }
            | Action::Reschedule { due: Some(Due::In(delay_ms)), .. } => delay_ms,
            _ => return None,
        };
        let due_ms = match operation.answer {
            Answer::Created { due_ms }
            | Answer::Replaced { due_ms }
            | Answer::Changed { due_ms } => due_ms,
            _ => return None,
        };
        let from_ms = operation.sent_us / 1_000 + delay_ms;
        let to_ms = operation.ended_us / 1_000 + delay_ms + 1;
        (!(from_ms..=to_ms).contains(&due_ms)).then(|| {
            format!("a delay was counted by a wrong clock: due {due_ms}, not {from_ms} to {to_ms}")
        })
    });
    wrong.take(LISTED_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Operation;

    #[test]
    fn a_delay_counts_from_the_call() {
        let answered = |due_ms| History {
            operations: vec![Operation {
                key: Some(0),
                sent_us: 1_000_000,
                ended_us: 1_050_000,
                action: Action::Schedule { mark: 1, due: Due::In(500) },
                answer: Answer::Created { due_ms },
            }],
            ..History::default()
        };
        for due_ms in [1_500, 1_520, 1_551] {
            assert!(find_wrong_due_times(&answered(due_ms)).is_empty(), "{due_ms}");
        }
        for due_ms in [1_499, 1_552, 6_500] {
            assert_eq!(find_wrong_due_times(&answered(due_ms)).len(), 1, "{due_ms}");
        }
    }
}
