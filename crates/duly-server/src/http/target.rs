//! Reads the target of a request: the admitted call with what its path names, and the query.
//!
//! 1. Segments are split before they are decoded, so an id may hold `/` as `%2F`.
//! 2. A query has only known names, each at most once.

use axum::{
    extract::{FromRequestParts, RawPathParams},
    http::request::Parts,
};
use duly_api::number::integers;
use duly_core::{
    Invalid, NamespaceName, TimerId,
    access::{KeyId, TenantName},
    similar_name::most_similar,
};
use http::Uri;
use url::form_urlencoded;

use super::Problem;
use crate::service::Admitted;

/// An admitted call, and what its path names.
#[derive(Debug)]
pub(crate) struct CallOn<T> {
    /// The call.
    pub(super) admitted: Admitted,
    /// The value that the path names: a namespace, a timer in one, a key or a tenant.
    pub(super) target: T,
}

/// A timer that a path names.
#[derive(Debug)]
pub(crate) struct TimerTarget {
    /// Its namespace.
    pub(super) namespace: NamespaceName,
    /// Its id.
    pub(super) id: TimerId,
}

/// A value that a path names.
pub(crate) trait Target: Sized {
    /// Reads the value from the parameters of a path. A namespace must be one that the caller may use.
    fn read(admitted: &Admitted, params: &RawPathParams) -> Result<Self, Problem>;
}

impl Target for NamespaceName {
    fn read(admitted: &Admitted, params: &RawPathParams) -> Result<Self, Problem> {
        let name = Self::new(param(params, "namespace"))?;
        admitted.check_namespace(&name)?;
        Ok(name)
    }
}

impl Target for TimerTarget {
    fn read(admitted: &Admitted, params: &RawPathParams) -> Result<Self, Problem> {
        let namespace = NamespaceName::read(admitted, params)?;
        Ok(Self { namespace, id: TimerId::new(param(params, "id"))? })
    }
}

impl Target for KeyId {
    fn read(_admitted: &Admitted, params: &RawPathParams) -> Result<Self, Problem> {
        Ok(Self::new(param(params, "id"))?)
    }
}

impl Target for TenantName {
    fn read(admitted: &Admitted, params: &RawPathParams) -> Result<Self, Problem> {
        let name = Self::new(param(params, "tenant"))?;
        admitted.note_tenant(&name);
        Ok(name)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Admitted {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        admitted(parts).cloned()
    }
}

impl<S: Send + Sync, T: Target> FromRequestParts<S> for CallOn<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let admitted = admitted(parts)?.clone();
        check_escapes("path", parts.uri.path())?;
        let params = RawPathParams::from_request_parts(parts, state).await;
        let params = params.map_err(|_| refused("path", parts.uri.path()))?;
        let target = T::read(&admitted, &params)?;
        Ok(Self { admitted, target })
    }
}

/// Returns the admitted call that the layer in front of the handlers has added.
pub(super) fn admitted(parts: &Parts) -> Result<&Admitted, Problem> {
    parts.extensions.get().ok_or_else(|| Problem::fault("a handler ran without admission"))
}

fn param<'p>(params: &'p RawPathParams, name: &str) -> &'p str {
    params.iter().find(|(known, _)| *known == name).map_or("", |(_, value)| value)
}

/// Refuses a `%` that is not followed by two hexadecimal digits.
pub(super) fn check_escapes(field: &str, text: &str) -> Result<(), Invalid> {
    let bytes = text.as_bytes();
    let broken = bytes.iter().enumerate().any(|(i, byte)| {
        *byte == b'%'
            && !bytes
                .get(i + 1..i + 3)
                .is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    });
    if broken { Err(refused(field, text)) } else { Ok(()) }
}

fn refused(field: &str, text: &str) -> Invalid {
    Invalid::new(field, text, "percent-encoded UTF-8 (% as %25, / as %2F, a space as %20)")
}

/// The parameters of a query.
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
                let meant = most_similar(&name, known.iter().copied());
                let known = known.iter().copied();
                return Err(Invalid::unknown("parameter", &*name, &name, meant, known).into());
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

    /// Returns a parameter as an integer from 1 to `high`.
    pub(super) fn integer(&self, name: &str, high: usize) -> Result<Option<u32>, Invalid> {
        let Some(text) = self.get(name) else { return Ok(None) };
        let number = text.parse().ok().filter(|number| (1..=high as u64).contains(number));
        let number = number.and_then(|number| u32::try_from(number).ok());
        number.map(Some).ok_or_else(|| match text.parse::<i128>() {
            Ok(_) => Invalid::plain(name, text, integers(1, high)),
            Err(_) => Invalid::new(name, text, integers(1, high)),
        })
    }

    /// Returns a parameter that is `true` or `false`.
    pub(super) fn flag(&self, name: &str) -> Result<Option<bool>, Invalid> {
        self.get(name)
            .map(|text| text.parse().map_err(|_| Invalid::new(name, text, "true or false")))
            .transpose()
    }
}
