//! The context of a call: its caller, a notice for people beside the body of its response, and what the audit
//! log says of it.
//!
//! The layer in front of all handlers sets it, for HTTP and gRPC alike. Work that goes on after the handler
//! has returned, such as a stream, takes its scope along ([`Scope`]).

use std::{cell::Cell, sync::Arc};

use axum::response::Response;
use duly_core::NamespaceName;
use http::{HeaderName, HeaderValue};
use parking_lot::Mutex;

use crate::auth::Caller;

/// Name of the header with the notice.
pub(crate) const NOTICE: HeaderName = HeaderName::from_static("duly-notice");

tokio::task_local! {
    static CONTEXT: Context;
}

struct Context {
    caller: Caller,
    notice: Cell<Option<String>>,
    /// `None` if the call is not audited.
    notes: Option<SharedNotes>,
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
}

/// Notes something about the present call, if it is audited.
pub(crate) fn note(note: impl FnOnce(&mut CallNotes)) {
    let noted = |context: &Context| {
        if let Some(notes) = &context.notes {
            note(&mut notes.lock());
        }
    };
    CONTEXT.try_with(noted).ok();
}

/// Returns the caller of the present call; outside of a call one who may do nothing.
pub(crate) fn caller() -> Caller {
    CONTEXT.try_with(|context| context.caller.clone()).unwrap_or(Caller::Unidentified)
}

/// Sets the notice of the response to the present call; outside of a call nothing happens.
pub(crate) fn set_notice(text: String) {
    CONTEXT.try_with(|context| context.notice.set(Some(text))).ok();
}

/// Runs the handler of a call, and adds its notice to the response.
pub(crate) async fn run(
    caller: Caller,
    notes: Option<SharedNotes>,
    handler: impl Future<Output = Response>,
) -> Response {
    let handler = async {
        let mut response = handler.await;
        let notice = CONTEXT.with(|context| context.notice.take());
        if let Some(notice) = notice.and_then(|text| HeaderValue::try_from(text).ok()) {
            response.headers_mut().insert(NOTICE, notice);
        }
        response
    };
    Scope { caller, notes }.run(handler).await
}

/// The caller and the notes of a call, for work that goes on beside or after its handler.
#[derive(Debug, Clone)]
pub(crate) struct Scope {
    caller: Caller,
    notes: Option<SharedNotes>,
}

impl Scope {
    /// Returns the scope of the present call.
    pub(crate) fn current() -> Self {
        let notes = CONTEXT.try_with(|context| context.notes.clone()).ok().flatten();
        Self { caller: caller(), notes }
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
        let Self { caller, notes } = self.clone();
        Context { caller, notice: Cell::new(None), notes }
    }
}

/// Takes what was noted of the present call so far.
pub(crate) fn take_notes() -> CallNotes {
    let take = |context: &Context| context.notes.as_ref().map(|it| std::mem::take(&mut *it.lock()));
    CONTEXT.try_with(take).ok().flatten().unwrap_or_default()
}
