//! Masks the secrets of a request in the words of its receiver, which may repeat what it got (S6).
//!
//! Known secrets are the values of headers that the API does not show, the query of the URL, and the signing
//! secrets, also as a text of JSON has them. A receiver that encodes them otherwise is not recognised.

use data_encoding::BASE64;
use duly_core::headers;
use serde_json::Value;

use crate::Envelope;

/// Shortest value that is masked; shorter ones would mask ordinary words.
const SECRET_BYTES_MIN: usize = 6;
/// Text in the place of a secret.
const MASK: &str = "***";

/// Returns the words of a receiver without the known secrets of the request.
pub(super) fn masked(mut words: String, envelope: &Envelope) -> String {
    if words.is_empty() {
        return words;
    }
    for secret in secrets(envelope) {
        if words.contains(&*secret) {
            words = words.replace(&*secret, MASK);
        }
        // The words are cut at a limit, which may be in the middle of a secret.
        let begun = (SECRET_BYTES_MIN..secret.len())
            .rev()
            .find(|&length| secret.get(..length).is_some_and(|begin| words.ends_with(begin)));
        if let Some(length) = begun {
            words.truncate(words.len() - length);
            words.push_str(MASK);
        }
    }
    words
}

/// Returns the secrets of a request, the longest first.
fn secrets(envelope: &Envelope) -> Vec<String> {
    let mut secrets = Vec::new();
    for (name, value) in envelope.spec.headers.iter().chain(envelope.destination.headers.iter()) {
        if headers::is_shown(name) {
            continue;
        }
        secrets.push(value.to_owned());
        if let Some((scheme, credential)) = value.split_once(' ') {
            secrets.push(credential.to_owned());
            let pair = BASE64.decode(credential.trim().as_bytes()).ok();
            let pair = pair.and_then(|pair| String::from_utf8(pair).ok());
            if let Some(pair) = pair.filter(|_| scheme.eq_ignore_ascii_case("basic")) {
                secrets.extend(pair.split_once(':').map(|(_, password)| password.to_owned()));
            }
        }
    }
    let url = envelope.destination.url();
    secrets.extend(url.query().map(str::to_owned));
    secrets.extend(url.query_pairs().map(|(_, value)| value.into_owned()));
    for secret in &envelope.signing_secrets {
        secrets.extend(secret.reveal().strip_prefix("whsec_").map(str::to_owned));
    }
    let in_json: Vec<_> = secrets.iter().flat_map(|secret| in_json(secret)).collect();
    secrets.extend(in_json);
    secrets.retain(|secret| secret.len() >= SECRET_BYTES_MIN);
    secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    secrets
}

/// Returns a text as it stands between the quotes of JSON: with the escapes that it needs, and with those of PHP, which
/// escapes slashes too.
fn in_json(text: &str) -> [String; 2] {
    let quoted = Value::from(text).to_string();
    let escaped = quoted[1..quoted.len() - 1].to_owned();
    let with_slashes = escaped.replace('/', "\\/");
    [escaped, with_slashes]
}

#[cfg(test)]
mod tests;
