use std::sync::Arc;

use super::*;
use crate::conformance;

fn headers(content_type: &str) -> Headers {
    Headers::new([("content-type".to_owned(), content_type.to_owned())]).unwrap()
}

#[test]
fn every_attribute_for_any_kind_of_receiver() {
    let mut envelope = conformance::envelope((), b"x");
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    Arc::make_mut(&mut envelope.spec).trace_parent = Some(trace.to_owned());
    let id = envelope.delivery_id.to_string();
    let none = Headers::default();
    let all = attributes(&envelope, &none);
    let expected = [
        ("datacontenttype", "application/octet-stream"),
        ("specversion", "1.0"),
        ("id", &id),
        ("source", "/namespaces/conformance"),
        ("type", "duly.timer.fired"),
        ("time", "2023-11-14T22:13:20.000Z"),
        ("subject", "timer 1"),
        ("traceparent", trace),
    ];
    assert_eq!(all, expected.map(|(name, value)| (name, value.into())));
}

#[test]
fn optional_attributes_are_left_out_and_replaced() {
    let mut envelope = conformance::envelope((), b"x");
    let spec = Arc::make_mut(&mut envelope.spec);
    // The stored context was not checked before.
    spec.trace_parent = Some("00-1\r\nx-evil: 1".to_owned());
    spec.payload = None;
    let content_type = |envelope: &Envelope<()>, of_destination: &Headers| {
        let (name, value) = attributes(envelope, of_destination).swap_remove(0);
        (name == DATA_CONTENT_TYPE).then(|| value.into_owned())
    };
    assert_eq!(attributes(&envelope, &Headers::default()).len(), 6);
    assert_eq!(content_type(&envelope, &Headers::default()), None);
    assert_eq!(content_type(&envelope, &headers("a/destination")).unwrap(), "a/destination");
    Arc::make_mut(&mut envelope.spec).headers = headers("a/timer");
    assert_eq!(content_type(&envelope, &headers("a/destination")).unwrap(), "a/timer");
}
