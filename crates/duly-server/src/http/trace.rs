//! Reads the W3C trace context of a schedule call, which the firing carries.

use http::HeaderMap;

use duly_api::trace;

/// Returns the `traceparent` of a call, if it is valid: `00-` trace id `-` parent id `-` flags.
pub(crate) fn parent(headers: &HeaderMap) -> Option<String> {
    let text = headers.get("traceparent")?.to_str().ok()?;
    trace::is_proper(text).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_proper_trace_context_travels() {
        let check = |text: &str, kept: bool| {
            let mut headers = HeaderMap::new();
            headers.insert("traceparent", text.parse().unwrap());
            assert_eq!(parent(&headers).is_some(), kept, "{text}");
        };
        let (trace, span) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
        check(&format!("00-{trace}-{span}-01"), true);
        check(&format!("ff-{trace}-{span}-01"), false);
        check(&format!("00-{}-{span}-01", "0".repeat(32)), false);
        check(&format!("00-{}-{span}-01", trace.to_uppercase()), false);
        check("00-1-2-3", false);
        check("", false);
        assert_eq!(parent(&HeaderMap::new()), None);
    }
}
