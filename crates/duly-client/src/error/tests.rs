use std::{collections::HashMap, sync::Arc};

use duly_api::{Problem, State};
use duly_core::Timestamp;
use tonic::{ConnectError, Status};
use tonic_types::{ErrorDetails, StatusExt};

use super::*;

fn said(code: Code, metadata: &[(&str, &str)], retry: Option<Duration>) -> Status {
    let mut more: HashMap<String, String> =
        metadata.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
    more.entry("code".into()).or_insert_with(|| code.as_str().into());
    let mut details = ErrorDetails::new();
    details.set_error_info(code.as_str().to_ascii_uppercase(), "duly", more);
    if retry.is_some() {
        details.set_retry_info(retry);
    }
    let grpc = tonic::Code::from_i32(code.grpc_status());
    Status::with_error_details(grpc, "it is so", details)
}

#[test]
fn every_code_has_retry_advice_and_certainty() {
    let second = Duration::from_secs(1);
    for code in Code::ALL {
        let error = of_status(&said(code, &[], Some(second)), "server");
        assert_eq!(error.code(), code);
        let (retry, is_not_done) = match code {
            Code::Aborted | Code::DeadlineExceeded => (RetryAdvice::AfterRead, false),
            Code::Internal => (RetryAdvice::Never, false),
            Code::Unavailable | Code::ResourceExhausted => (RetryAdvice::After(second), true),
            Code::AlreadyExists
            | Code::RevisionMismatch
            | Code::InFlight
            | Code::Finished
            | Code::Cancelled
            | Code::Dead
            | Code::NamespaceNotEmpty => (RetryAdvice::AfterRead, true),
            _ => (RetryAdvice::Never, true),
        };
        assert_eq!(error.retry(), retry, "{code:?}");
        assert_eq!(error.is_not_done(), is_not_done, "{code:?}");
    }
}

#[test]
fn codes_of_newer_servers_count_by_their_status() {
    for (known, status) in [(Code::Finished, 409), (Code::Unavailable, 503)] {
        let call = of_status(&said(known, &[("code", "brand_new")], None), "server");
        let item = Error::from(Problem {
            code: "brand_new".into(),
            status,
            ..Problem::new(known, "it is so")
        });
        for error in [call, item] {
            if status < 500 {
                assert_eq!(error.to_string(), "it is so (brand_new)");
                assert_eq!((error.code(), error.is_not_done()), (Code::InvalidArgument, true));
                assert_eq!(error.repetition(), Repetition::Never);
            } else {
                assert_eq!((error.code(), error.is_not_done()), (Code::Aborted, false));
                assert_eq!(error.repetition(), Repetition::Unknown(Duration::ZERO));
            }
        }
    }
}

#[test]
fn item_and_call_refusals_are_equal_errors() {
    let metadata = [
        ("field", "if_revision"),
        ("seen", "1"),
        ("allowed", "2"),
        ("state", "scheduled"),
        ("leased_until", "2026-01-01T00:00:00.500Z"),
        ("attempts", "3"),
        ("maybe_delivered", "true"),
        ("expected_revision", "1"),
        ("actual_revision", "2"),
    ];
    let call = of_status(&said(Code::RevisionMismatch, &metadata, None), "server");
    let item = Error::from(Problem {
        field: Some("if_revision".into()),
        seen: Some("1".into()),
        allowed: Some("2".into()),
        state: State::Scheduled.into(),
        leased_until: Timestamp::from_unix_ms(1_767_225_600_500).map(Into::into),
        attempts: Some(3),
        maybe_delivered: Some(true),
        expected_revision: Some(1),
        actual_revision: Some(2),
        ..Problem::new(Code::RevisionMismatch, "it is so")
    });
    assert_eq!(call, item);
    let state = call.refusal().map(|refusal| refusal.problem.state());
    assert_eq!(state, Some(State::Scheduled));
    assert_eq!(call.to_string(), "it is so (revision_mismatch)");
}

#[test]
fn only_a_failed_connect_proves_that_nothing_was_done() {
    let mut never = Status::unavailable("tcp connect error");
    let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
    never.set_source(Arc::new(ConnectError(refused.into())));
    let error = of_status(&never, "http://localhost:1");
    assert!(matches!(&error, Error::Unreachable { server, .. } if server == "http://localhost:1"));
    assert!(error.is_not_done());
    assert_eq!(error.repetition(), Repetition::Safe(Duration::ZERO));
    for status in [Status::unavailable("gone"), Status::cancelled(""), Status::unknown("h2")] {
        let error = of_status(&status, "server");
        assert!(!error.is_not_done(), "{error}");
        assert_eq!(error.repetition(), Repetition::Unknown(Duration::ZERO));
    }
}

#[test]
fn foreign_statuses_get_a_code_and_a_hint() {
    for (status, code, word) in [
        (Status::unauthenticated("who?"), Code::Unauthenticated, "token"),
        (Status::unimplemented("404"), Code::MethodNotAllowed, "Duly server"),
        (Status::out_of_range("too long"), Code::Internal, "message_bytes_max"),
        (Status::deadline_exceeded("late"), Code::DeadlineExceeded, "read the timer"),
    ] {
        let error = of_status(&status, "server");
        assert_eq!(error.code(), code);
        assert!(error.to_string().contains(word), "{error}");
    }
}

#[test]
fn only_the_batch_index_is_removed_from_the_field() {
    let mut refusal = Refusal::new(Code::InvalidArgument, "operations[3].schedule.delay must be x");
    refusal.problem.field = Some("operations[3].schedule.delay".into());
    let alone = refusal.clone().without_path("operations[3].schedule.");
    assert_eq!(alone.problem.field.as_deref(), Some("delay"));
    assert_eq!(alone.problem.detail, "delay must be x");
    assert_eq!(refusal.clone().without_path("operations[4]."), refusal);
}

#[test]
fn a_time_is_named_as_the_caller_wrote_it() {
    for (sent, detail, field, shown) in [
        (
            "filter.due_from.seconds",
            "filter.due_from.seconds must be an integer from 0 to 9; got -5",
            "filter.due_from",
            "filter.due_from in seconds must be an integer from 0 to 9; got -5",
        ),
        ("delay.nanos", "delay.nanos must be x", "delay", "delay in nanoseconds must be x"),
        ("id", "id must be x", "id", "id must be x"),
    ] {
        let mut problem = Problem::new(Code::InvalidArgument, detail);
        problem.field = Some(sent.to_owned());
        let error = Error::from(problem);
        let problem = &error.refusal().unwrap().problem;
        assert_eq!((problem.field.as_deref(), &*problem.detail), (Some(field), shown));
    }
}
