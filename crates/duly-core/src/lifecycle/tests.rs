//! Keeps `table.txt` equal to the code: every event in every state.

use super::*;

const EVENTS: [(&str, Event); 24] = [
    ("schedule.same", Event::Schedule(RequestMatch::Same)),
    ("schedule.fail", Event::Schedule(RequestMatch::Other(IfExists::Fail))),
    ("schedule.keep", Event::Schedule(RequestMatch::Other(IfExists::Keep))),
    ("schedule.replace", Event::Schedule(RequestMatch::Other(IfExists::Replace))),
    ("schedule.restart", Event::Schedule(RequestMatch::Other(IfExists::Restart))),
    ("import.known", Event::Import(ImportMatch::Same)),
    ("import.new", Event::Import(ImportMatch::Other)),
    ("reschedule", Event::Reschedule),
    ("cancel", Event::Cancel),
    ("cancel_or_stop", Event::CancelOrStop),
    ("fire", Event::Fire),
    ("claim", Event::Claim),
    ("ack", Event::Ack),
    ("fail.left", Event::Fail(RetryBudget::Left)),
    ("fail.spent", Event::Fail(RetryBudget::Spent)),
    ("dead_letter", Event::DeadLetter),
    ("release", Event::Release),
    ("snooze", Event::Snooze),
    ("end_stopped", Event::EndStopped),
    ("expire", Event::Expire),
    ("overdue", Event::Overdue),
    ("redrive", Event::Redrive),
    ("purge", Event::Purge),
    ("forget", Event::Forget),
];

fn word(transition: Transition) -> String {
    match transition {
        Transition::Create => "create".into(),
        Transition::Replace => "replace".into(),
        Transition::Existing => "existing".into(),
        Transition::Change => "change".into(),
        Transition::Move(state) => format!("→{state}"),
        Transition::Already => "already".into(),
        Transition::Remove => "remove".into(),
        Transition::Refuse(code) => format!("!{}", code.as_str()),
    }
}

fn render() -> String {
    let states = std::iter::once(None).chain(State::ALL.into_iter().map(Some));
    let mut text = String::from("event");
    for state in states.clone() {
        text += &format!(" | {}", state.map_or("absent", State::as_str));
    }
    text.push('\n');
    for (name, event) in EVENTS {
        text += name;
        for state in states.clone() {
            text += &format!(" | {}", word(transition(state, event)));
        }
        text.push('\n');
    }
    text
}

#[test]
fn p4_p5_p6_p8_the_table_is_the_code() {
    let expected = include_str!("table.txt");
    let actual = render();
    for (line, (want, got)) in expected.lines().zip(actual.lines()).enumerate() {
        assert_eq!(want, got, "line {}", line + 1);
    }
    assert_eq!(expected.lines().count(), actual.lines().count(), "{actual}");
}

#[test]
fn p4_only_a_new_schedule_leaves_cancelled() {
    for (name, event) in EVENTS {
        let decision = transition(Some(State::Cancelled), event);
        let harmless = match decision {
            Transition::Create => name.starts_with("schedule"),
            // Without its tombstone it is not pending either.
            Transition::Remove => name == "forget",
            Transition::Existing | Transition::Already | Transition::Refuse(_) => true,
            _ => false,
        };
        assert!(harmless, "{name}: {decision:?}");
    }
}

#[test]
fn p3_only_ack_and_cancel_and_purge_end_a_firing() {
    for state in State::ALL.into_iter().filter(|s| s.is_pending() || *s == State::Dead) {
        for (name, event) in EVENTS {
            let decision = transition(Some(state), event);
            let ends = matches!(
                decision,
                Transition::Move(State::Finished | State::Cancelled) | Transition::Remove
            );
            assert_eq!(
                ends,
                ends && ["ack", "cancel", "cancel_or_stop", "end_stopped", "purge"].contains(&name),
                "{name}"
            );
        }
    }
}
