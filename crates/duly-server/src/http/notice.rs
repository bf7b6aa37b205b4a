//! Adds a notice for people to a response, beside its body: the header `duly-notice`.

use std::cell::Cell;

use axum::response::Response;
use http::{HeaderName, HeaderValue};

/// Name of the header.
pub(crate) const NOTICE: HeaderName = HeaderName::from_static("duly-notice");

tokio::task_local! {
    static SAID: Cell<Option<String>>;
}

/// Sets the notice of the response to the current request; outside of a request nothing happens.
pub(super) fn say(text: String) {
    SAID.try_with(|said| said.set(Some(text))).ok();
}

/// Runs a handler, and adds its notice to the response.
pub(crate) async fn noticed(answer: impl Future<Output = Response>) -> Response {
    let answer = async {
        let mut response = answer.await;
        let said = SAID.with(Cell::take).and_then(|text| HeaderValue::try_from(text).ok());
        if let Some(said) = said {
            response.headers_mut().insert(NOTICE, said);
        }
        response
    };
    SAID.scope(Cell::default(), answer).await
}
