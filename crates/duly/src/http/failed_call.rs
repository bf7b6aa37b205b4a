//! Messages for failed calls: for a problem document (RFC 9457), and for calls that got no response.

use std::{error::Error, io, time::Duration};

use duly_api::{Problem, Words as _};
use duly_core::Millis;
use reqwest::{Method, StatusCode, Url};
use rustls::CertificateError;

use super::{advice::for_commands, certificate};
use crate::failure::Failure;

/// A hint: the condition, and the text. The condition is a code, or a code, a space and a state of the
/// timer. The first hint that matches is used.
pub(crate) type Hint = (&'static str, &'static str);

/// The beginning of a command in a text: a sentence with one needs no hint.
const COMMAND: &str = "`duly ";

/// Returns the failure for a refusal, with its hint.
pub(super) fn refusal(server: &Url, status: StatusCode, body: &str, hints: &[Hint]) -> Failure {
    let Ok(problem) = serde_json::from_str::<Problem>(body) else {
        let is_path = status == StatusCode::NOT_FOUND && path_prefix(server) != "/";
        let hint = if is_path { path_hint(server) } else { String::new() };
        let what = match status {
            StatusCode::UNAUTHORIZED => {
                ", but not as a Duly server: a proxy in front of it wants a sign-in of its own; check the \
                 address, and its user and password"
            }
            StatusCode::FORBIDDEN => {
                ", but not as a Duly server: a proxy in front of it refuses you; check the address, and the \
                 rules of the proxy"
            }
            StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => {
                ", but not as a Duly server: a proxy in front of it does not reach it; check that the server \
                 runs, and the address that the proxy calls"
            }
            _ => ", but not as a Duly server: check the address",
        };
        return Failure::coded(
            "not_duly",
            format_args!("{} responded with {status}{what}{hint}", shown(server)),
        );
    };
    let message = if is_about_path(&problem, path_prefix(server)) {
        sentence(&problem, &[]) + &path_hint(server)
    } else {
        sentence(&problem, hints)
    };
    Failure::Refused { message, problem: body.to_owned() }
}

/// Returns a hint that the path of the server's address may be wrong.
fn path_hint(server: &Url) -> String {
    format!(
        "\n  the path {} of --server (or DULY_SERVER) is the prefix of every call: leave it out, \
         unless a proxy serves Duly below it",
        path_prefix(server)
    )
}

/// Returns `true` if a problem reports that nothing exists at a path that begins with this one.
fn is_about_path(problem: &Problem, path: &str) -> bool {
    let quoted = format!("\"{}", path.trim_end_matches('/'));
    path != "/" && problem.code == "not_found" && problem.detail.contains(&quoted)
}

/// Returns a problem as a sentence with its code, and its hint.
pub(crate) fn sentence(problem: &Problem, hints: &[Hint]) -> String {
    let code = problem.code.replace('_', " ");
    let texts = [&problem.detail, &problem.title, &code].into_iter();
    let mut texts = texts.map(|text| text.trim_end_matches('.')).filter(|text| !text.is_empty());
    let detail = texts.next().unwrap_or_default();
    let mut sentence = for_commands(detail).into_owned();
    if let Some(field) = &problem.field
        && !detail.contains(field.as_str())
    {
        sentence = format!("{field}: {sentence}");
    }
    let names_command = sentence.contains(COMMAND);
    sentence.push_str(&format!(" ({})", problem.code));
    if let Some(wait_ms) = problem.retry_after_ms {
        let wait = Millis::from_ms(wait_ms);
        sentence.push_str(&format!("; try again in {wait}"));
    }
    let fits = |when: &str| {
        let (code, state) = when.split_once(' ').unwrap_or((when, ""));
        code == problem.code && (state.is_empty() || state == problem.state().as_str())
    };
    if let Some((_, hint)) = hints.iter().find(|(when, _)| fits(when))
        && !names_command
    {
        sentence.push_str("\n  ");
        sentence.push_str(hint);
    }
    sentence
}

/// Returns the failure for a call that got no response.
pub(super) fn no_response_failure(
    server: &Url,
    error: &reqwest::Error,
    limit: Duration,
    method: &Method,
) -> Failure {
    if error.is_timeout() && !error.is_connect() {
        let server = shown(server);
        let limit = Millis::from_ms(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX));
        return no_response(&format!("no response from {server} within {limit}"), method);
    }
    broken(server, error, method)
}

/// Returns the failure for a call without a time limit that did not get its whole response.
pub(super) fn broken(server: &Url, error: &reqwest::Error, method: &Method) -> Failure {
    let server = shown(server);
    let (is_refused, cause) = match root(error) {
        Ok(root) => root,
        Err(certificate) => return certificate::refused(&server, certificate),
    };
    if error.is_connect() {
        return not_listening(&server, (!is_refused).then_some(&*cause));
    }
    // A server that takes HTTPS alone answers HTTP with an alert of TLS.
    if cause.contains("invalid HTTP version") {
        return Failure::coded(
            "unreachable",
            format_args!(
                "{server} responded with something other than HTTP: if it has TLS, write https:// \
                 instead of http://"
            ),
        );
    }
    let what = "was lost before the response was complete";
    no_response(&format!("the connection to {server} {what} ({cause})"), method)
}

/// Returns the failure for a call that was sent. The outcome of a read is not in doubt.
fn no_response(what: &str, method: &Method) -> Failure {
    if method.is_safe() {
        let words = format_args!("{what}; nothing was changed: repeat the command");
        return Failure::coded("no_answer", words);
    }
    Failure::coded(
        "outcome_unknown",
        format_args!("{what}: the outcome is unknown; check it before you repeat the command"),
    )
}

/// Returns the failure for a server that cannot be connected to. There is a cause unless the system
/// refused the connection.
fn not_listening(server: &str, cause: Option<&str>) -> Failure {
    let cause = match cause {
        None => String::new(),
        // rustls reports this for a response that is not TLS.
        Some(cause) if cause.contains("InvalidContentType") => {
            " (it does not speak TLS: write http:// instead of https://)".to_owned()
        }
        Some(cause) => format!(" ({cause})"),
    };
    Failure::coded(
        "unreachable",
        format_args!(
            "no Duly server answers at {server}{cause}: start one with `duly serve`, or name another with --server"
        ),
    )
}

/// Returns the path before that of every call.
fn path_prefix(server: &Url) -> &str {
    if server.scheme() == "unix" { "/" } else { server.path() }
}

/// Returns the server's address without user name and password.
pub(crate) fn shown(server: &Url) -> String {
    let mut shown = server.clone();
    // An address that cannot have these refuses them, and has none.
    shown.set_password(None).ok();
    shown.set_username("").ok();
    shown.as_str().trim_end_matches('/').to_owned()
}

/// Returns `true` if the connection was refused, and the innermost cause; or the error of the server's certificate.
fn root(error: &reqwest::Error) -> Result<(bool, String), &CertificateError> {
    let mut refused = false;
    let mut cause: &dyn Error = error;
    loop {
        if let Some(io) = cause.downcast_ref::<io::Error>() {
            refused |= io.kind() == io::ErrorKind::ConnectionRefused;
            if let Some(error) = certificate::error_of(io) {
                return Err(error);
            }
        }
        match cause.source() {
            Some(inner) => cause = inner,
            None => return Ok((refused, cause.to_string())),
        }
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
        match refusal(&server, status, body, &HINTS) {
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
    fn not_found_below_a_path_prefix_gets_a_hint() {
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
    fn problem_sentence_has_field_code_and_retry_time() {
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
    fn password_of_the_address_is_not_shown() {
        let server = Url::parse("http://me:hunter2@127.0.0.1:1").expect("an address");
        let failure = refusal(&server, StatusCode::NOT_FOUND, "<html>", &[]);
        let message = format!("{failure:?}");
        assert!(message.contains("127.0.0.1") && !message.contains("hunter2"), "{message}");
    }

    #[test]
    fn foreign_response_is_reported_as_not_duly() {
        for body in ["", "<html>", "{}", r#"{"error":"x"}"#] {
            assert!(message(body).contains("not as a Duly server"), "{body}");
        }
    }

    #[test]
    fn responses_of_a_proxy_name_it() {
        for (status, remedy) in [
            (StatusCode::UNAUTHORIZED, "user and password"),
            (StatusCode::FORBIDDEN, "rules of the proxy"),
            (StatusCode::BAD_GATEWAY, "does not reach it"),
        ] {
            let message = message_of("http://h:1", status, "<html>");
            assert!(message.contains("a proxy in front") && message.contains(remedy), "{message}");
        }
    }

    #[test]
    fn only_a_change_has_an_unknown_outcome() {
        let texts = |method| no_response("no response", &method).to_string();
        assert!(texts(Method::POST).contains("the outcome is unknown"));
        let read = texts(Method::GET);
        assert!(read.contains("nothing was changed") && !read.contains("unknown"), "{read}");
    }

    #[test]
    fn an_address_is_shown_without_its_password() {
        let server = Url::parse("https://me:secret@timers.example:8443/").expect("a URL");
        assert_eq!(shown(&server), "https://timers.example:8443");
    }
}
