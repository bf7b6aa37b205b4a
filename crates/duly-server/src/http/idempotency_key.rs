//! The header `Idempotency-Key`: the id of a timer whose caller gave none.
//!
//! 1. Callers of other interfaces repeat a call with the same key, and expect its effect once. The id of a timer does
//!    that, so the key becomes the id. The same request with the same key finds the timer; another request with it is
//!    refused, as with an id.
//! 2. An id in the body stands above the header, which programs may add to every call.
//! 3. Other calls have no id that the key could be. Those that may act again when they are repeated say so in a notice.

use axum::extract::FromRequestParts;
use duly_core::{Invalid, TimerId};
use http::{HeaderMap, request::Parts};

use super::Problem;
use crate::{
    operations::{CallKind, Repeat},
    service::Admitted,
};

/// Name of the header, as errors call it.
pub(super) const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// The allowed keys, for messages.
const ALLOWED: &str = "given once: the id of the timer, 1 to 256 visible ASCII characters";

/// The key of a call, if it has one.
#[derive(Debug)]
pub(crate) struct IdempotencyKey(pub(super) Option<String>);

impl<S: Send + Sync> FromRequestParts<S> for IdempotencyKey {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        Ok(Self(read(&parts.headers)?))
    }
}

fn read(headers: &HeaderMap) -> Result<Option<String>, Invalid> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let (Ok(text), None) = (value.to_str(), values.next()) else {
        return Err(Invalid::unseen(IDEMPOTENCY_KEY, ALLOWED));
    };
    // The draft of the IETF has a string of RFC 8941, in quotes; others send the bare key.
    let text = text.trim();
    let quoted = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    let key = quoted
        .map_or_else(|| text.to_owned(), |text| text.replace("\\\"", "\"").replace("\\\\", "\\"));
    let key = key.trim();
    match TimerId::new(key) {
        Ok(_) => Ok(Some(key.to_owned())),
        Err(_) => Err(Invalid::new(IDEMPOTENCY_KEY, text, ALLOWED)),
    }
}

/// Sets a notice if a call has a key that has no effect, and may act again when it is repeated.
pub(super) fn notice(admitted: &Admitted, headers: &HeaderMap) {
    let operation = admitted.operation();
    if operation.kind != CallKind::Change || !headers.contains_key(IDEMPOTENCY_KEY) {
        return;
    }
    let condition = match operation.repeat {
        // It is read, or not needed.
        Repeat::IfId | Repeat::Yes => return,
        Repeat::No => "",
        Repeat::IfItems => ", unless every item has an id of its own",
        Repeat::IfRevision => ", unless it has if_revision",
        Repeat::IfDryRun => ", unless it is a dry run",
        Repeat::WithoutLease => ", if it has a lease",
    };
    admitted.set_notice(format!(
        "{IDEMPOTENCY_KEY} has no effect on this call: repeated, it may act again{condition}"
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_bare_and_in_quotes() {
        let check = |values: &[&str], expected: Result<Option<&str>, ()>| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(IDEMPOTENCY_KEY, value.parse().unwrap());
            }
            let read = read(&headers).map_err(|invalid| assert_eq!(invalid.field, IDEMPOTENCY_KEY));
            assert_eq!(
                read.as_ref().map(Option::as_deref),
                expected.as_ref().copied(),
                "{values:?}"
            );
        };
        check(&[], Ok(None));
        check(&["abc"], Ok(Some("abc")));
        check(&[" abc "], Ok(Some("abc")));
        check(&["\"8e03978e-40d5\""], Ok(Some("8e03978e-40d5")));
        check(&[r#""a\"b""#], Ok(Some("a\"b")));
        check(&["order/7"], Ok(Some("order/7")));
        check(&[""], Err(()));
        check(&["\"\""], Err(()));
        check(&["."], Err(()));
        check(&["a", "a"], Err(()));
        check(&["\u{fc}"], Err(()));
        check(&[&*"x".repeat(257)], Err(()));
    }
}
