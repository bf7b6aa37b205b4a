use duly_core::{Invalid, NamespaceName, TimerId, Timestamp, payload::PAYLOAD_BYTES_HARD};

use super::*;

const ALL: [OperationKind; 7] = [
    OperationKind::Schedule,
    OperationKind::Import,
    OperationKind::Reschedule,
    OperationKind::Cancel,
    OperationKind::Fire,
    OperationKind::Redrive,
    OperationKind::Purge,
];

fn state(state: State, code: Code) -> Refusal {
    Refusal::State {
        id: TimerId::new("order:1").unwrap(),
        state,
        code,
        leased_until: None,
        attempts: 1,
        maybe_delivered: true,
    }
}

fn detail_of(refusal: Refusal, kind: OperationKind) -> String {
    Problem::refused(refusal, kind, "").into_body().detail
}

#[test]
fn refusals_by_state_name_a_remedy() {
    for kind in ALL {
        for (is, code) in [
            (State::InFlight, Code::InFlight),
            (State::Finished, Code::Finished),
            (State::Dead, Code::Dead),
        ] {
            let text = detail_of(state(is, code), kind);
            assert!(text.starts_with("timer \"order:1\" is "), "{text}");
            assert!(!text.contains("does not allow"), "{kind:?} {is:?}: {text}");
        }
    }
    for is in [State::Scheduled, State::Due, State::Retrying, State::InFlight] {
        let text = detail_of(state(is, Code::AlreadyExists), OperationKind::Schedule);
        assert!(text.contains("if_exists \"keep\""), "{text}");
        assert_eq!(text.contains("\"replace\""), is != State::InFlight, "{text}");
    }
    let mut leased = state(State::InFlight, Code::InFlight);
    if let Refusal::State { leased_until, .. } = &mut leased {
        *leased_until = Some(Timestamp::from_unix_ms(1_500).unwrap());
    }
    let text = detail_of(leased, OperationKind::Cancel);
    assert!(text.contains("leased until 1970-01-01T00:00:01.500Z: "), "{text}");
    for kind in [OperationKind::Reschedule, OperationKind::Fire] {
        let text = detail_of(state(State::Cancelled, Code::Cancelled), kind);
        assert!(text.contains("schedule a new one"), "{text}");
    }
}

#[test]
fn raising_a_limit_is_advised_only_where_it_can_be_raised() {
    let refused = |bytes| {
        let namespace = NamespaceName::new("n").unwrap();
        let refusal = Refusal::PayloadTooLarge { namespace, bytes, bytes_max: 100 };
        detail_of(refusal, OperationKind::Schedule)
    };
    for (bytes, is_advised) in
        [(101, true), (PAYLOAD_BYTES_HARD, true), (PAYLOAD_BYTES_HARD + 1, false)]
    {
        let text = refused(bytes);
        assert_eq!(
            text.contains("raise limits.namespace.max_payload_bytes of n"),
            is_advised,
            "{text}"
        );
        assert_eq!(text.contains("16777216: send a smaller one"), !is_advised, "{text}");
    }
}

#[test]
fn only_cancels_have_a_definite_outcome() {
    for kind in ALL {
        let problem = Problem::refused(state(State::Finished, Code::Finished), kind, "");
        let expected = (kind == OperationKind::Cancel).then_some("finished");
        assert_eq!(problem.into_body().outcome.as_deref(), expected, "{kind:?}");
        let nowhere = Refusal::UnknownNamespace(NamespaceName::new("none").unwrap());
        let expected = (kind == OperationKind::Cancel).then_some("not_found");
        let problem = Problem::refused(nowhere, kind, "").into_body();
        assert_eq!((problem.outcome.as_deref(), problem.field), (expected, None), "{kind:?}");
    }
}

#[test]
fn fields_at_fault_stand_below_their_operation() {
    let revision = || Refusal::Revision { id: TimerId::new("t").unwrap(), expected: 2, actual: 3 };
    let invalid = || Refusal::Invalid(Invalid::new("delay", "9d", "at most 1d from now"));
    for (refusal, kind, path, field) in [
        (revision(), OperationKind::Cancel, String::new(), "if_revision"),
        (
            revision(),
            OperationKind::Cancel,
            OperationKind::Cancel.path_at(3),
            "operations[3].cancel.if_revision",
        ),
        (invalid(), OperationKind::Schedule, String::new(), "delay"),
        (
            invalid(),
            OperationKind::Schedule,
            OperationKind::Schedule.path_at(0),
            "operations[0].schedule.delay",
        ),
        (invalid(), OperationKind::Import, OperationKind::Import.path_at(2), "timers[2].delay"),
    ] {
        let problem = Problem::refused(refusal, kind, &path).into_body();
        assert_eq!(problem.field.as_deref(), Some(field));
    }
    let problem =
        Problem::refused(invalid(), OperationKind::Schedule, &OperationKind::Schedule.path_at(7));
    let detail = problem.into_body().detail;
    assert!(detail.starts_with("operations[7].schedule.delay must be"), "{detail}");
    let found = state(State::Finished, Code::Finished);
    assert_eq!(
        Problem::refused(found, OperationKind::Fire, "operations[1].fire").into_body().field,
        None
    );
}
