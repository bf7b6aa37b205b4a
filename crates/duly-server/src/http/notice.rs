//! What an answer says beside its body, for people: the header `duly-notice`.

use std::cell::Cell;

use axum::response::Response;
use http::{HeaderName, HeaderValue};

/// The header.
pub(crate) const NOTICE: HeaderName = HeaderName::from_static("duly-notice");

tokio::task_local! {
    static SAID: Cell<Option<String>>;
}

/// Notes what the answer to the present request is to say; nothing outside of a request.
pub(super) fn say(text: String) {
    SAID.try_with(|said| said.set(Some(text))).ok();
}

/// Makes an answer, and adds what was said meanwhile.
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
