//! Reads query strings: only known names, each at most once.

use duly_core::Invalid;
use http::Uri;
use url::form_urlencoded;

use super::{Problem, path::check_escapes};

/// The parameters of a request.
#[derive(Debug)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    /// Reads the query string, which may have these names and no others.
    pub(super) fn read(uri: &Uri, known: &[&str]) -> Result<Self, Problem> {
        let Some(text) = uri.query().filter(|text| !text.is_empty()) else {
            return Ok(Self(Vec::new()));
        };
        check_escapes("query", text)?;
        let mut pairs: Vec<(String, String)> = Vec::new();
        for (name, value) in form_urlencoded::parse(text.as_bytes()) {
            if !known.contains(&name.as_ref()) {
                let allowed = if known.is_empty() {
                    "left out; no parameter is known here".to_owned()
                } else {
                    format!("left out; known here: {}", known.join(", "))
                };
                return Err(Invalid::new(name.as_ref(), name.as_ref(), allowed).into());
            }
            if pairs.iter().any(|(seen, _)| *seen == name) {
                return Err(Invalid::unseen(name.as_ref(), "given only once").into());
            }
            if value.contains('\u{fffd}') {
                return Err(Invalid::new(name.as_ref(), value, "percent-encoded UTF-8").into());
            }
            pairs.push((name.into_owned(), value.into_owned()));
        }
        Ok(Self(pairs))
    }

    /// Returns the value of a parameter.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns a parameter as an integer.
    pub(super) fn integer(&self, name: &str) -> Result<Option<u32>, Invalid> {
        let allowed = format!("an integer from 0 to {}", u32::MAX);
        self.get(name)
            .map(|text| text.parse().map_err(|_| Invalid::new(name, text, allowed)))
            .transpose()
    }

    /// Returns a parameter that is `true` or `false`.
    pub(super) fn flag(&self, name: &str) -> Result<Option<bool>, Invalid> {
        self.get(name)
            .map(|text| text.parse().map_err(|_| Invalid::new(name, text, "true or false")))
            .transpose()
    }
}
