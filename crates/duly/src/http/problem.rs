//! A problem document (RFC 9457) as one message for a person.

use reqwest::{StatusCode, Url};
use serde::Deserialize;

use crate::failure::Failure;

/// The fields of a problem that a message is made of.
#[derive(Deserialize)]
struct Problem {
    title: Option<String>,
    code: String,
    detail: Option<String>,
    field: Option<String>,
    state: Option<String>,
    retry_after_ms: Option<u64>,
}

/// What to type after a refusal with this code, or with this code and, behind a space, this state of
/// the timer; the first that fits counts.
pub(crate) type Hint = (&'static str, &'static str);

/// What the server said when it refused, and the hint that goes with it.
pub(super) fn failure(server: &Url, status: StatusCode, body: &str, hints: &[Hint]) -> Failure {
    match serde_json::from_str::<Problem>(body) {
        Ok(problem) => {
            let message = match problem.is_of_a_path(server.path()) {
                true => format!("{}{}", problem.sentence(&[]), about_the_path(server)),
                false => problem.sentence(hints),
            };
            Failure::Refused { message, problem: body.to_owned() }
        }
        Err(_) => {
            let path = match status == StatusCode::NOT_FOUND && server.path() != "/" {
                true => about_the_path(server),
                false => String::new(),
            };
            let what = "and not as a Duly server does: is it one?";
            Failure::coded("not_duly", format_args!("{server} answered {status}, {what}{path}"))
        }
    }
}

/// What is likely wrong where nothing is found below the path of an address.
fn about_the_path(server: &Url) -> String {
    format!(
        "\n  the path {} of --server (or DULY_SERVER) stands in front of every call: leave it out, \
         unless a proxy serves Duly below it",
        server.path()
    )
}

/// What a problem inside a reply says of one item among several, with its code.
pub(crate) fn sentence(problem: &str) -> String {
    match serde_json::from_str::<Problem>(problem) {
        Ok(problem) => problem.sentence(&[]),
        Err(_) => problem.to_owned(),
    }
}

/// What a problem inside a reply says of one item among several.
pub(crate) fn detail(problem: &str) -> String {
    let parsed = serde_json::from_str::<Problem>(problem).ok();
    parsed.and_then(|problem| problem.detail).unwrap_or_else(|| problem.to_owned())
}

impl Problem {
    /// Whether it says that there is nothing at a path that begins with this one.
    fn is_of_a_path(&self, path: &str) -> bool {
        let quoted = format!("\"{}", path.trim_end_matches('/'));
        let names_it = self.detail.as_ref().is_some_and(|detail| detail.contains(&quoted));
        path != "/" && self.code == "not_found" && names_it
    }

    fn sentence(&self, hints: &[Hint]) -> String {
        let said = [&self.detail, &self.title].into_iter().flatten();
        let mut sentence = said
            .map(|text| text.trim_end_matches('.'))
            .next()
            .map_or_else(|| self.code.replace('_', " "), str::to_owned);
        if let Some(field) = &self.field
            && !sentence.contains(field.as_str())
        {
            sentence = format!("{field}: {sentence}");
        }
        sentence.push_str(&format!(" ({})", self.code));
        if let Some(wait_ms) = self.retry_after_ms {
            let wait = duly_core::Millis::from_ms(wait_ms);
            sentence.push_str(&format!("; try again in {wait}"));
        }
        let fits = |when: &str| {
            let (code, state) = when.split_once(' ').unzip();
            code.unwrap_or(when) == self.code && (state.is_none() || state == self.state.as_deref())
        };
        if let Some((_, hint)) = hints.iter().find(|(when, _)| fits(when)) {
            sentence.push_str("\n  ");
            sentence.push_str(hint);
        }
        sentence
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(body: &str) -> String {
        message_of("http://127.0.0.1:1", StatusCode::CONFLICT, body)
    }

    fn message_of(server: &str, status: StatusCode, body: &str) -> String {
        const HINTS: [Hint; 4] = [
            ("finished", "do this"),
            ("already_exists in_flight", "wait"),
            ("already_exists", "replace it"),
            ("not_found", "look"),
        ];
        let server = Url::parse(server).expect("a URL");
        match failure(&server, status, body, &HINTS) {
            Failure::Failed { message, .. } | Failure::Refused { message, .. } => message,
            other => panic!("not a failure: {other:?}"),
        }
    }

    #[test]
    fn a_hint_may_be_for_one_state_of_the_timer() {
        for (state, hint) in [("in_flight", "wait"), ("scheduled", "replace it")] {
            let body = format!(r#"{{"code":"already_exists","title":"T","state":"{state}"}}"#);
            assert_eq!(message(&body), format!("T (already_exists)\n  {hint}"));
        }
        assert_eq!(
            message(r#"{"code":"already_exists","title":"T"}"#),
            "T (already_exists)\n  replace it"
        );
    }

    #[test]
    fn where_nothing_is_found_below_the_path_of_the_address_the_path_is_named() {
        let nothing =
            r#"{"code":"not_found","detail":"there is nothing at \"/x/v1/namespaces\": look"}"#;
        let no_timer = r#"{"code":"not_found","detail":"there is no timer \"a\""}"#;
        let advice = "the path /x of --server";
        for (server, body, is_the_path) in [
            ("http://h:1/x", nothing, true),
            ("http://h:1/x", "<html>", true),
            ("http://h:1/x", no_timer, false),
            ("http://h:1", nothing, false),
            ("http://h:1/", "<html>", false),
        ] {
            let message = message_of(server, StatusCode::NOT_FOUND, body);
            assert_eq!(message.contains(advice), is_the_path, "{server} {body}: {message}");
        }
        let message = message_of("http://h:1/x", StatusCode::NOT_FOUND, no_timer);
        assert!(message.ends_with("(not_found)\n  look"), "{message}");
    }

    #[test]
    fn a_problem_names_what_field_and_code_and_when_to_try_again() {
        for (body, expected) in [
            (
                r#"{"code":"finished","title":"T","detail":"it has ended."}"#,
                "it has ended (finished)\n  do this",
            ),
            (
                r#"{"code":"invalid_argument","detail":"must be odd","field":"retry.n"}"#,
                "retry.n: must be odd (invalid_argument)",
            ),
            (
                r#"{"code":"resource_exhausted","title":"A limit is reached","retry_after_ms":1500}"#,
                "A limit is reached (resource_exhausted); try again in 1s500ms",
            ),
        ] {
            assert_eq!(message(body), expected);
        }
    }

    #[test]
    fn an_answer_of_something_else_is_not_taken_for_dulys() {
        for body in ["", "<html>", "{}", r#"{"error":"x"}"#] {
            assert!(message(body).contains("is it one?"), "{body}");
        }
    }
}
