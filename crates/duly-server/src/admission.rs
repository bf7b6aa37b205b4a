//! The checks of a call before its operation, in one order for HTTP and gRPC.
//!
//! 1. Guard: the host, the origin, and no delivery of Duly that came back.
//! 2. Key: the caller proves to hold a valid one, unless the operation is open, or the listener is that of probes and
//!    needs none. A failure counts against the address of the caller.
//! 3. Tenant: its connections and calls are within their limits. A refusal has no line in the audit log.
//! 4. Right: the key permits the operation.
//! 5. Audit: with `audit.required`, the log has space for the line of the call.
//! 6. Coding: the body is not compressed.
//! 7. Form: the front knows the operation, and reads the head of the call.
//! 8. Memory: a change has a place in the memory of requests, because its response cannot be refused later.
//!
//! Two refusals come before these rules: over HTTP/2 a stream without a key does not begin while callers without a key hold
//! all memory of theirs ([`streams`](crate::connection::streams)), a preflight neither; and while the store opens, every call but probes is
//! unavailable.
//!
//! A preflight request of a browser has no key, and passes by rule 1 alone. Otherwise the first rule that fails decides
//! the response. Namespaces are checked where they are read
//! ([`Admitted::check_namespace`]), and the rights to the items of a batch with the items.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use axum::{extract, middleware::Next, response::Response};
use duly_api::trace;
use duly_core::{Code, invalid::shorten};
use futures::FutureExt;
use http::{HeaderMap, HeaderName, HeaderValue, Request, header::CONTENT_ENCODING};
use tokio::time::timeout;

use crate::{
    audit::{AuditedCall, CallFacts},
    auth::Caller,
    connection::{Connection, ConnectionKind},
    memory::budget::Budget,
    operations::{CallKind, Operation, PREFLIGHT, Right},
    problem::Problem,
    service::{Admitted, App},
};

/// Name of the header with the notice.
const NOTICE: HeaderName = HeaderName::from_static("duly-notice");

/// A call as its front reads it.
pub(crate) struct Arrival<'a, B> {
    /// `http` or `grpc`.
    pub(crate) protocol: &'static str,
    /// The operation.
    pub(crate) operation: &'static Operation,
    /// The head of the call.
    pub(crate) request: &'a Request<B>,
    /// The connection of the call; `None` in tests without one.
    pub(crate) connection: Option<&'a Connection>,
}

/// The result of the checks.
pub(crate) struct Decision {
    /// The call, or its refusal.
    pub(crate) admitted: Result<Admitted, Problem>,
    /// The record of the call, which ends with the response; `None` if the call gets none.
    pub(crate) audited: Option<AuditedCall>,
    /// The kind of the response.
    pub(crate) kind: CallKind,
    /// The memory of requests and responses.
    pub(crate) budget: Budget,
}

/// Checks a call. `form` is the check of the front.
pub(crate) fn admit<B>(
    app: &App,
    arrival: Arrival<'_, B>,
    form: impl FnOnce() -> Result<(), Problem>,
) -> Decision {
    let Arrival { protocol, operation, request, connection } = arrival;
    let headers = request.headers();
    let listener = connection.map_or(ConnectionKind::Main, |it| it.kind);
    let peer = connection.map(|it| it.peer.clone()).unwrap_or_default();
    let peer = app.guard.behind_proxies(peer, headers);
    let address = peer.address;
    let needs_no_key = listener == ConnectionKind::Admin && !app.auth.guards_admin();
    let (known, permitted) = match app.guard.check_request(request) {
        Err(problem) => (None, Err(problem)),
        Ok(()) if needs_no_key => (None, Ok(Caller::Anyone)),
        Ok(()) if *operation == PREFLIGHT => (None, Ok(Caller::Unidentified)),
        Ok(()) => app.auth.admit(operation.right, headers, peer, app.now()),
    };
    if let (Some(connection), Some(caller)) =
        (connection, known.as_ref().or(permitted.as_ref().ok()))
    {
        connection.note_caller(caller);
    }
    let slot = connection.map(|it| it.tenant_slot.clone()).unwrap_or_default();
    let within = known.as_ref().map_or(Ok(()), |it| app.check_tenant(operation, it, &slot));
    // A tenant that calls too often gets no lines in the audit log for that.
    let recorded = if within.is_ok() { operation.right } else { Right::Open };
    let permitted = within.and(permitted);
    let audited = app.audit.begin(app.auth.is_required(), recorded, || CallFacts {
        protocol,
        operation,
        is_admitted: permitted.is_ok(),
        identity: known.as_ref().and_then(Caller::identity),
        address,
        now: app.now(),
    });
    let (audited, unwritable) = match audited {
        Ok(audited) => (audited, None),
        Err(problem) => (None, Some(problem)),
    };
    let permitted = permitted.and_then(|caller| unwritable.map_or(Ok(caller), Err));
    let budget = app.budget_of(known.as_ref().unwrap_or(&Caller::Unidentified));
    let kind = match listener {
        ConnectionKind::Main => operation.kind,
        // The reserve and the admin listener serve one response at a time on each of a few connections.
        ConnectionKind::Reserve | ConnectionKind::Admin => CallKind::Health,
    };
    let admitted = permitted.and_then(|caller| {
        if *operation != PREFLIGHT {
            check_content_encoding(headers)?;
        }
        form()?;
        check_capacity(kind, &budget)?;
        let notes = audited.as_ref().map(AuditedCall::notes);
        Ok(Admitted::new(app.clone(), operation, caller, notes, trace_parent(headers)))
    });
    Decision { admitted, audited, kind, budget }
}

/// Runs an admitted call, which has a response or a problem within `limit`. A problem calls the limit by `name`, or
/// else by its seconds.
pub(crate) async fn run(
    admitted: Admitted,
    limit: Duration,
    name: Option<&str>,
    mut request: extract::Request,
    next: Next,
) -> Result<Response, Problem> {
    request.extensions_mut().insert(admitted.clone());
    match timeout(limit, AssertUnwindSafe(next.run(request)).catch_unwind()).await {
        Ok(Ok(mut response)) => {
            if admitted.operation().kind == CallKind::Read {
                // The call may have waited.
                admitted.check_still_valid()?;
            }
            let notice = admitted.take_notice().and_then(|text| HeaderValue::try_from(text).ok());
            response.headers_mut().extend(notice.map(|notice| (NOTICE, notice)));
            Ok(response)
        }
        Ok(Err(panic)) => Err(Problem::panicked(&*panic)),
        Err(_elapsed) => {
            let seconds = format!("within {} s", limit.as_secs());
            Err(admitted.no_response(name.unwrap_or(&seconds)))
        }
    }
}

/// Returns the W3C trace context of a call. A malformed one is left out.
fn trace_parent(headers: &HeaderMap) -> Option<Arc<str>> {
    let text = headers.get("traceparent").and_then(|value| value.to_str().ok());
    text.filter(|text| trace::is_proper(text)).map(Arc::from)
}

/// Refuses a change while the memory is full.
///
/// A small call may have a large response, which would exceed the budget. So unread responses exceed it only by
/// the changes that were under way when it became full.
fn check_capacity(kind: CallKind, budget: &Budget) -> Result<(), Problem> {
    match kind {
        CallKind::Change => budget.reserve(1).map(drop),
        CallKind::Read | CallKind::Probe | CallKind::Health | CallKind::Static => Ok(()),
    }
}

/// Refuses an encoded body: the server decodes none, so its bytes would be misread.
///
/// # Errors
/// When a coding other than `identity` is named.
fn check_content_encoding(headers: &HeaderMap) -> Result<(), Problem> {
    let is_plain = |value: &HeaderValue| {
        let codings = value.to_str().unwrap_or("unreadable").split(',').map(str::trim);
        codings.into_iter().all(|it| it.is_empty() || it.eq_ignore_ascii_case("identity"))
    };
    let mut values = headers.get_all(CONTENT_ENCODING).iter();
    let Some(value) = values.find(|value| !is_plain(value)) else {
        return Ok(());
    };
    let seen = shorten(&String::from_utf8_lossy(value.as_bytes()));
    let allowed = "left out: this server reads bodies as they are";
    let detail = format!("content-encoding must be {allowed}; got {seen}");
    let problem = Problem::new(Code::UnsupportedMediaType, detail);
    Err(problem.at("content-encoding", Some(seen), allowed))
}

#[cfg(test)]
mod tests;
