//! The context of a call: its caller, and a notice for people beside the body of its response.
//!
//! The layer in front of all handlers sets it, for HTTP and gRPC alike. Work that goes on after the handler
//! has returned, such as a stream, takes the caller along ([`caller`], [`Caller::scope`]).

use std::cell::Cell;

use axum::response::Response;
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
}

impl Context {
    const fn new(caller: Caller) -> Self {
        Self { caller, notice: Cell::new(None) }
    }
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
pub(crate) async fn run(caller: Caller, handler: impl Future<Output = Response>) -> Response {
    let handler = async {
        let mut response = handler.await;
        let notice = CONTEXT.with(|context| context.notice.take());
        if let Some(notice) = notice.and_then(|text| HeaderValue::try_from(text).ok()) {
            response.headers_mut().insert(NOTICE, notice);
        }
        response
    };
    CONTEXT.scope(Context::new(caller), handler).await
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
