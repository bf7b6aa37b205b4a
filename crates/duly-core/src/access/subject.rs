//! Subjects of certificates and of signed tokens.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Invalid;

/// Longest text of a subject, in bytes.
pub const SUBJECT_BYTES_MAX: usize = 512;

/// Beginnings of subjects.
const KINDS: [&str; 3] = ["cert:", "jwt:sub:", "jwt:group:"];

/// The subject of a certificate or of a signed token (JWT):
///
/// * `cert:` and a URI or a DNS name of the certificate, such as `cert:spiffe://example.org/orders`;
/// * `jwt:sub:` and the claim `sub` of the token;
/// * `jwt:group:` and a group that the token names.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Subject(String);

impl Subject {
    /// Creates a subject from text, after checking it.
    pub fn new(text: &str) -> Result<Self, Invalid> {
        let name = KINDS.iter().find_map(|kind| text.strip_prefix(kind));
        let is_allowed = name.is_some_and(|name| !name.is_empty())
            && text.len() <= SUBJECT_BYTES_MAX
            && !text.chars().any(char::is_control);
        if is_allowed {
            return Ok(Self(text.to_owned()));
        }
        let allowed = format!(
            "cert: and a URI or DNS name of a certificate, jwt:sub: and the subject of a token, or \
             jwt:group: and a group, at most {SUBJECT_BYTES_MAX} bytes"
        );
        Err(Invalid::new("subject", text, allowed))
    }

    /// Returns `true` for a name in a certificate, `false` for a claim of a token.
    pub fn is_of_certificate(&self) -> bool {
        self.0.starts_with(KINDS[0])
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<Subject> for String {
    fn from(subject: Subject) -> Self {
        subject.0
    }
}

impl TryFrom<String> for Subject {
    type Error = Invalid;

    fn try_from(text: String) -> Result<Self, Invalid> {
        Self::new(&text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_name_their_kind() {
        for text in ["cert:spiffe://a/b", "cert:worker.example.org", "jwt:sub:1", "jwt:group:ops"] {
            assert_eq!(Subject::new(text).unwrap().as_str(), text);
        }
        let long = format!("jwt:sub:{}", "x".repeat(SUBJECT_BYTES_MAX));
        for text in ["", "cert:", "jwt:sub:", "jwt:x", "x", "cert:a\n", &long] {
            assert!(Subject::new(text).is_err(), "{text}");
        }
    }
}
