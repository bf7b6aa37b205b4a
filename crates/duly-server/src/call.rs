//! The context of a call: its caller, its trace context, a notice for people beside the body of its response,
//! and what the audit log says of it.
//!
//! The layer in front of all handlers sets it, for HTTP and gRPC alike. Work that goes on after the handler
//! has returned, such as a stream, takes its scope along ([`Scope`]).

use std::{cell::Cell, sync::Arc};

use axum::response::Response;
use duly_api::trace;
use duly_core::NamespaceName;
use http::{HeaderMap, HeaderName, HeaderValue};
use parking_lot::Mutex;

use crate::auth::Caller;

/// Name of the header with the notice.
pub(crate) const NOTICE: HeaderName = HeaderName::from_static("duly-notice");

tokio::task_local! {
    static CONTEXT: Context;
}

struct Context {
    scope: Scope,
    notice: Cell<Option<String>>,
}

/// The notes of a call, which the audit log reads when it ends.
pub(crate) type SharedNotes = Arc<Mutex<CallNotes>>;

/// Facts about a call for the audit log, as far as it was read.
#[derive(Debug, Clone, Default)]
pub(crate) struct CallNotes {
    /// Its namespace.
    pub(crate) namespace: Option<NamespaceName>,
    /// The key that it concerns.
    pub(crate) target: Option<String>,
    /// Timers and verdicts that it named.
    pub(crate) items: u64,
    /// `true`: the caller may not know of the namespace, or lacks a right to a part of the call.
    pub(crate) is_denied: bool,
    /// `true`: it has no line in the audit log that is required, so it may do nothing but revoke a key.
    pub(crate) may_only_revoke: bool,
}

/// Notes something about the present call, if it is audited.
pub(crate) fn note(note: impl FnOnce(&mut CallNotes)) {
    let noted = |context: &Context| {
        if let Some(notes) = &context.scope.notes {
            note(&mut notes.lock());
        }
    };
    CONTEXT.try_with(noted).ok();
}

/// Returns `true` if the present call may do nothing but revoke a key.
pub(crate) fn may_only_revoke() -> bool {
    let noted = |context: &Context| {
        context.scope.notes.as_ref().is_some_and(|notes| notes.lock().may_only_revoke)
    };
    CONTEXT.try_with(noted).unwrap_or(false)
}

/// Returns the caller of the present call; outside of a call one who may do nothing.
pub(crate) fn caller() -> Caller {
    CONTEXT.try_with(|context| context.scope.caller.clone()).unwrap_or(Caller::Unidentified)
}

/// Returns the W3C trace context of the present call. A malformed one is left out.
pub(crate) fn trace_parent() -> Option<Arc<str>> {
    CONTEXT.try_with(|context| context.scope.trace_parent.clone()).ok().flatten()
}

/// Sets the notice of the response to the present call; outside of a call nothing happens.
pub(crate) fn set_notice(text: String) {
    CONTEXT.try_with(|context| context.notice.set(Some(text))).ok();
}

/// Runs the handler of a call, and adds its notice to the response.
pub(crate) async fn run(scope: Scope, handler: impl Future<Output = Response>) -> Response {
    let handler = async {
        let mut response = handler.await;
        let notice = CONTEXT.with(|context| context.notice.take());
        if let Some(notice) = notice.and_then(|text| HeaderValue::try_from(text).ok()) {
            response.headers_mut().insert(NOTICE, notice);
        }
        response
    };
    scope.run(handler).await
}

/// The parts of a context that work beside or after the handler of the call needs too.
#[derive(Debug, Clone)]
pub(crate) struct Scope {
    caller: Caller,
    /// `None` if the call is not audited.
    notes: Option<SharedNotes>,
    trace_parent: Option<Arc<str>>,
}

impl Scope {
    /// Creates the scope of a call with these headers.
    pub(crate) fn new(caller: Caller, notes: Option<SharedNotes>, headers: &HeaderMap) -> Self {
        let text = headers.get("traceparent").and_then(|value| value.to_str().ok());
        let trace_parent = text.filter(|text| trace::is_proper(text)).map(Arc::from);
        Self { caller, notes, trace_parent }
    }

    /// Returns the scope of the present call; outside of a call one of a caller who may do nothing.
    pub(crate) fn current() -> Self {
        CONTEXT.try_with(|context| context.scope.clone()).unwrap_or(Self {
            caller: Caller::Unidentified,
            notes: None,
            trace_parent: None,
        })
    }

    /// Runs a part of the call that the handler has left behind.
    pub(crate) async fn run<T>(&self, work: impl Future<Output = T>) -> T {
        CONTEXT.scope(self.context(), work).await
    }

    /// Runs work of the call on another thread.
    pub(crate) fn run_blocking<T>(&self, work: impl FnOnce() -> T) -> T {
        CONTEXT.sync_scope(self.context(), work)
    }

    fn context(&self) -> Context {
        Context { scope: self.clone(), notice: Cell::new(None) }
    }
}

/// Takes what was noted of the present call so far.
pub(crate) fn take_notes() -> CallNotes {
    let take =
        |context: &Context| context.scope.notes.as_ref().map(|it| std::mem::take(&mut *it.lock()));
    CONTEXT.try_with(take).ok().flatten().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_proper_trace_context_travels() {
        let check = |text: &str, kept: bool| {
            let mut headers = HeaderMap::new();
            headers.insert("traceparent", text.parse().unwrap());
            let scope = Scope::new(Caller::Unidentified, None, &headers);
            assert_eq!(scope.run_blocking(trace_parent).is_some(), kept, "{text}");
        };
        let (trace, span) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
        check(&format!("00-{trace}-{span}-01"), true);
        check(&format!("ff-{trace}-{span}-01"), false);
        check(&format!("00-{}-{span}-01", "0".repeat(32)), false);
        check(&format!("00-{}-{span}-01", trace.to_uppercase()), false);
        check("00-1-2-3", false);
        check("", false);
        assert_eq!(trace_parent(), None);
    }
}
