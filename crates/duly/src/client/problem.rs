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
    retry_after_ms: Option<u64>,
}

/// What to type after a refusal with this code.
pub(crate) type Hint = (&'static str, &'static str);

/// What the server said when it refused, and the hint that goes with it.
pub(super) fn failure(server: &Url, status: StatusCode, body: &str, hints: &[Hint]) -> Failure {
    match serde_json::from_str::<Problem>(body) {
        Ok(problem) => {
            Failure::Refused { message: problem.sentence(hints), problem: body.to_owned() }
        }
        Err(_) => Failure::coded(
            "not_duly",
            format_args!("{server} answered {status}, and not as a Duly server does: is it one?"),
        ),
    }
}

/// What a problem inside an answer says: of one item among several.
pub(crate) fn sentence(problem: &str) -> String {
    match serde_json::from_str::<Problem>(problem) {
        Ok(problem) => problem.sentence(&[]),
        Err(_) => problem.to_owned(),
    }
}

impl Problem {
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
        if let Some((_, hint)) = hints.iter().find(|(code, _)| *code == self.code) {
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
        let server = Url::parse("http://127.0.0.1:1").expect("a URL");
        match failure(&server, StatusCode::CONFLICT, body, &[("finished", "do this")]) {
            Failure::Failed { message, .. } | Failure::Refused { message, .. } => message,
            other => panic!("not a failure: {other:?}"),
        }
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
