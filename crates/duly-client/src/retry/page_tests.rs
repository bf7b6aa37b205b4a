//! Compares the model for every client in `docs/reference/http.md` with this client.

use tonic::Status;

use super::*;
use crate::{
    builder::{CONNECT_TIMEOUT, TIMEOUT},
    client::pulling::WAIT_MAX,
    error::of_status,
};

const PAGE: &str = include_str!("../../../../docs/reference/http.md");
const TABLE: &str = include_str!("../retry.rs");

/// The calls of the table of this module with those of the page.
const CALLS: [(&str, &str); 13] = [
    ("`schedule`, `debounce`", "`schedule_timer` with an id"),
    ("`cancel`", "`cancel_timer`"),
    ("`reschedule` with `if_revision`", "`reschedule_timer` with `if_revision`"),
    ("`reschedule` without", "`reschedule_timer` without"),
    ("`fire`", "`fire_timer`"),
    ("`settle`", "`settle` without a lease"),
    ("`lease`", "`lease`"),
    (
        "`put_namespace`, `patch_namespace`, `pause`, `resume`",
        "`put_namespace`, `patch_namespace`,",
    ),
    ("`delete_namespace`, `delete_namespace_and_timers`", "`delete_namespace`,"),
    ("`batch` of schedules and cancels", "`batch` of schedules and cancels"),
    ("`batch` of anything else", "`batch` of anything else"),
    ("`cancel_many`", "`cancel_by_filter`"),
    ("`redrive`", "`redrive`, `purge`, `dead_letter_overdue`, `forget_timer`"),
];

/// Returns the verdict of the row that begins with this call: `yes`, `no` or `only`.
fn verdict<'a>(text: &'a str, call: &str) -> &'a str {
    let row = text
        .lines()
        .find_map(|line| line.trim_start_matches("//! ").strip_prefix("| ")?.strip_prefix(call))
        .unwrap_or_else(|| panic!("no row of {call}"));
    let cell = row.split('|').nth(1).unwrap_or_default();
    cell.split([' ', ',']).find(|word| !word.is_empty()).unwrap_or_default()
}

#[test]
fn page_repeats_the_calls_that_this_client_repeats() {
    for (here, there) in CALLS {
        assert_eq!(verdict(TABLE, here), verdict(PAGE, there), "{here}, {there}");
    }
    for same_as_redrive in ["`purge`", "`forget`", "`dead_letter_overdue`"] {
        assert_eq!(verdict(TABLE, same_as_redrive), verdict(TABLE, "`redrive`"));
    }
}

#[test]
fn page_has_the_waits_and_time_limits_of_this_client() {
    let Retries { tries_max, first_wait, longest_wait } = Retries::default();
    let doubled = Retries::default().wait_after(2, 0.0);
    assert_eq!(doubled, first_wait * 2);
    let halved = Retries::default().wait_after(1, 1.0);
    assert_eq!(halved, first_wait / 2);
    let (ms, s) = (first_wait.as_millis(), longest_wait.as_secs());
    for row in [
        format!("| after the first try | {ms} ms |"),
        format!("| after each further try | twice the wait before, up to {s} s |"),
        format!("| end | {tries_max} tries in all, or the time limit of the call."),
        format!("| a call with all its tries and waits | {} s.", TIMEOUT.as_secs()),
        format!(
            "| `lease`, and `settle` with `lease` | {} s and the `wait` of the request, which is 0 s to {} s",
            TIMEOUT.as_secs(),
            WAIT_MAX.as_secs()
        ),
        format!("| the connection, as a part of it | {} s |", CONNECT_TIMEOUT.as_secs()),
    ] {
        assert!(PAGE.contains(&row), "{row}");
    }
}

#[test]
fn page_says_how_responses_without_a_problem_count() {
    assert!(
        PAGE.contains("It counts as no response: as `same_call`. 401, 403 and 404 are refusals")
    );
    // The statuses of gRPC that stand for those of HTTP, in a response without a gRPC status.
    let (unauthorized, forbidden) = (Status::unauthenticated(""), Status::permission_denied(""));
    for status in [unauthorized, forbidden, Status::unimplemented("404")] {
        let error = of_status(&status, "server");
        assert_eq!(error.repetition(), Repetition::Never, "{error}");
        assert!(error.is_not_done());
    }
    for status in [Status::internal("400"), Status::unavailable("502"), Status::unknown("500")] {
        let error = of_status(&status, "server");
        assert_eq!(error.repetition(), Repetition::Unknown(Duration::ZERO), "{error}");
    }
}
