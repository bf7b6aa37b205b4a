//! Messages for calls that got no response.

use std::{error::Error, io, time::Duration};

use duly_core::Millis;
use reqwest::{Method, Url};

use crate::failure::Failure;

/// The system's message if no process listens at the address.
const REFUSED: &str = "Connection refused";

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
    let (is_refused, cause) = root(error);
    if error.is_connect() {
        return not_listening(&server, if is_refused { REFUSED } else { &cause });
    }
    let what = format!(
        "the connection to {server} was lost before the response was complete \
                        ({cause})"
    );
    no_response(&what, method)
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

fn not_listening(server: &str, reason: &str) -> Failure {
    let cause = if reason.contains(REFUSED) {
        String::new()
    } else if reason.contains("InvalidContentType") {
        // rustls reports this for a response that is not TLS.
        " (it does not speak TLS: write http:// instead of https://)".to_owned()
    } else {
        format!(" ({reason})")
    };
    Failure::coded(
        "unreachable",
        format_args!(
            "no Duly server answers at {server}{cause}: start one with `duly serve`, or name another with --server"
        ),
    )
}

/// Returns the server's address without user name and password.
pub(super) fn shown(server: &Url) -> String {
    let mut shown = server.clone();
    // An address that cannot have these refuses them, and has none.
    shown.set_password(None).ok();
    shown.set_username("").ok();
    shown.as_str().trim_end_matches('/').to_owned()
}

/// Returns `true` if the connection was refused, and the innermost cause.
fn root(error: &reqwest::Error) -> (bool, String) {
    let mut refused = false;
    let mut cause: &dyn Error = error;
    loop {
        if let Some(io) = cause.downcast_ref::<io::Error>() {
            refused |= io.kind() == io::ErrorKind::ConnectionRefused;
        }
        match cause.source() {
            Some(inner) => cause = inner,
            None => return (refused, cause.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
