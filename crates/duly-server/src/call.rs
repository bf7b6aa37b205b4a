//! The context of a call: its caller, a notice for people beside the body of its response, and what the audit
//! log says of it.
//!
//! The layer in front of all handlers sets it, for HTTP and gRPC alike. Work that goes on after the handler
//! has returned, such as a stream, takes the caller along ([`caller`], [`Caller::scope`]).

use std::cell::{Cell, RefCell};

use axum::response::Response;
use duly_core::NamespaceName;
use http::{HeaderName, HeaderValue};

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
    notes: Option<RefCell<CallNotes>>,
}

/// Facts about a call for the audit log, as far as it was read.
#[derive(Debug, Clone, Default)]
pub(crate) struct CallNotes {
    /// Its namespace.
    pub(crate) namespace: Option<NamespaceName>,
    /// Timers and verdicts that it named.
    pub(crate) items: u64,
    /// `true`: the caller may not know of the namespace, or lacks a right to a part of the call.
    pub(crate) is_denied: bool,
}

impl Context {
    const fn new(caller: Caller) -> Self {
        Self { caller, notice: Cell::new(None), notes: None }
    }
}

/// Notes something about the present call, if it is audited.
pub(crate) fn note(note: impl FnOnce(&mut CallNotes)) {
    let noted = |context: &Context| {
        if let Some(notes) = &context.notes {
            note(&mut notes.borrow_mut());
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

/// Runs the handler of a call, and adds its notice to the response; with `is_audited` also its [`CallNotes`],
/// as an extension.
pub(crate) async fn run(
    caller: Caller,
    is_audited: bool,
    handler: impl Future<Output = Response>,
) -> Response {
    let handler = async {
        let mut response = handler.await;
        let (notice, notes) =
            CONTEXT.with(|context| (context.notice.take(), context.notes.clone()));
        if let Some(notes) = notes {
            response.extensions_mut().insert(notes.into_inner());
        }
        if let Some(notice) = notice.and_then(|text| HeaderValue::try_from(text).ok()) {
            response.headers_mut().insert(NOTICE, notice);
        }
        response
    };
    let notes = is_audited.then(RefCell::default);
    CONTEXT.scope(Context { notes, ..Context::new(caller) }, handler).await
}

impl Caller {
    /// Runs a part of the caller's call that the handler has left behind.
    pub(crate) async fn scope<T>(&self, work: impl Future<Output = T>) -> T {
        CONTEXT.scope(Context::new(self.clone()), work).await
    }

    /// Runs work of the caller's call on another thread.
    pub(crate) fn scope_blocking<T>(&self, work: impl FnOnce() -> T) -> T {
        CONTEXT.sync_scope(Context::new(self.clone()), work)
    }
}
