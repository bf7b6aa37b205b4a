//! Adds a notice for people to a response, beside its body: the header `duly-notice`.

use std::cell::Cell;

use axum::response::Response;
use http::{HeaderName, HeaderValue};

/// Name of the header.
pub(crate) const NOTICE: HeaderName = HeaderName::from_static("duly-notice");

tokio::task_local! {
    static NOTICE_TEXT: Cell<Option<String>>;
}

/// Sets the notice of the response to the current request; outside of a request nothing happens.
pub(super) fn set_notice(text: String) {
    NOTICE_TEXT.try_with(|notice| notice.set(Some(text))).ok();
}

/// Runs a handler, and adds its notice to the response.
pub(crate) async fn with_notice(handler: impl Future<Output = Response>) -> Response {
    let handler = async {
        let mut response = handler.await;
        let notice = NOTICE_TEXT.with(Cell::take).and_then(|text| HeaderValue::try_from(text).ok());
        if let Some(notice) = notice {
            response.headers_mut().insert(NOTICE, notice);
        }
        response
    };
    NOTICE_TEXT.scope(Cell::default(), handler).await
}
