use std::sync::Arc;

use duly_core::{destination::HttpDestination, headers::Headers};

use super::*;
use crate::conformance::envelope;

fn check(words: &str, expected: &str) {
    let url = "https://receiver.example/hook?token=t0ken-of-url&v=2";
    let mut to = HttpDestination::new(url).unwrap();
    let pairs = |pairs: &[(&str, &str)]| {
        let owned = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Headers::new(owned).unwrap()
    };
    to.headers =
        pairs(&[("authorization", "Basic dXNlcjpvcGVuLXNlc2FtZQ=="), ("user-agent", "Acme Agent")]);
    let mut envelope = envelope(to, b"x");
    Arc::make_mut(&mut envelope.spec).headers =
        pairs(&[("x-api-key", "k3y-of-timer"), ("x-region", "eu"), ("x-token", r#"a/b"c\d"#)]);
    assert_eq!(masked(words.to_owned(), &envelope), expected);
}

#[test]
fn s6_secrets_of_the_request_are_masked() {
    check("no key k3y-of-timer, no k3y-of-timer!", "no key ***, no ***!");
    check("authorization: Basic dXNlcjpvcGVuLXNlc2FtZQ==", "authorization: ***");
    check("got dXNlcjpvcGVuLXNlc2FtZQ==", "got ***");
    check("password open-sesame is wrong", "password *** is wrong");
    check("/hook?token=t0ken-of-url&v=2 not found", "/hook?*** not found");
    check("bad t0ken-of-url", "bad ***");
    check("cut at k3y-of", "cut at ***");
    check(r#"{"token":"a/b\"c\\d"}"#, r#"{"token":"***"}"#);
    check(r#"{"token":"a\/b\"c\\d"}"#, r#"{"token":"***"}"#);
    // What the API shows, and what is too short to be a secret, stays.
    check("Acme Agent in eu, version 2", "Acme Agent in eu, version 2");
    check("", "");
}
