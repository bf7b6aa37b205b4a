//! Reads the head of a request: the admitted call, and from its path a namespace, a timer in one, a key or a tenant.
//!
//! Segments are split before they are decoded, so an id may hold `/` as `%2F`.

use axum::{
    extract::{FromRequestParts, RawPathParams},
    http::request::Parts,
};
use duly_core::{
    Invalid, NamespaceName, TimerId,
    access::{KeyId, TenantName},
};

use super::Problem;
use crate::service::Admitted;

/// The namespace in the path.
#[derive(Debug, Clone)]
pub(crate) struct NamespacePath(pub(crate) NamespaceName);

/// The timer in the path.
#[derive(Debug, Clone)]
pub(crate) struct TimerPath {
    /// Its namespace.
    pub(super) namespace: NamespaceName,
    /// Its id.
    pub(super) id: TimerId,
}

/// The key in the path.
#[derive(Debug, Clone)]
pub(super) struct KeyPath(pub(super) KeyId);

/// The tenant in the path.
#[derive(Debug, Clone)]
pub(super) struct TenantPath(pub(super) TenantName);

impl<S: Send + Sync> FromRequestParts<S> for Admitted {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Problem> {
        admitted(parts).cloned()
    }
}

impl<S: Send + Sync> FromRequestParts<S> for TenantPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        Ok(Self(TenantName::new(param(&decoded(parts, state).await?, "tenant"))?))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for KeyPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        Ok(Self(KeyId::new(param(&decoded(parts, state).await?, "id"))?))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for NamespacePath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let params = decoded(parts, state).await?;
        Ok(Self(namespace(parts, &params)?))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for TimerPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let params = decoded(parts, state).await?;
        Ok(Self { namespace: namespace(parts, &params)?, id: TimerId::new(param(&params, "id"))? })
    }
}

async fn decoded<S: Send + Sync>(parts: &mut Parts, state: &S) -> Result<RawPathParams, Problem> {
    check_escapes("path", parts.uri.path())?;
    RawPathParams::from_request_parts(parts, state)
        .await
        .map_err(|_| refused("path", parts.uri.path()).into())
}

/// Returns the admitted call that the layer in front of the handlers has added.
pub(super) fn admitted(parts: &Parts) -> Result<&Admitted, Problem> {
    parts.extensions.get().ok_or_else(|| Problem::fault("a handler ran without admission"))
}

/// Returns the namespace in the path, after checking that the caller may use it.
fn namespace(parts: &Parts, params: &RawPathParams) -> Result<NamespaceName, Problem> {
    let name = NamespaceName::new(param(params, "namespace"))?;
    admitted(parts)?.check_namespace(&name)?;
    Ok(name)
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
