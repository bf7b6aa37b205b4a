//! Deliveries as third-party libraries read them: the CloudEvents SDK, and the reference crate of
//! Standard Webhooks.

use ::http::{HeaderMap, HeaderName, HeaderValue};
use cloudevents::{AttributesReader, Data, event::SpecVersion};
use duly_core::{Payload, payload::Form};

use super::*;

async fn arrived(sent: Envelope, web: &Web) -> (HeaderMap, Vec<u8>) {
    assert_eq!(web.sink().deliver(sent).await, Delivery::Confirmed);
    let arrival = web.arrivals().await.remove(0);
    let pairs = arrival.headers.iter().map(|(name, value)| {
        (HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap())
    });
    (pairs.collect(), arrival.body)
}

#[tokio::test]
async fn the_cloudevents_sdk_reads_every_attribute_and_the_data() {
    let web = Web::start().await;
    for (form, body, content_type) in [
        (Form::Json, &br#"{"a": [1, 2]}"#[..], "application/json"),
        (Form::Text, "caf\u{e9}".as_bytes(), "text/plain; charset=utf-8"),
        (Form::Binary, &[0, 159, 146, 150][..], "application/octet-stream"),
    ] {
        let mut sent = envelope(web.destination(), body);
        Arc::make_mut(&mut sent.spec).payload = Some(Payload { form, bytes: body.to_vec().into() });
        let (id, due_ms) = (sent.delivery_id.to_string(), sent.due_at.unix_ms());
        let (headers, body) = arrived(sent, &web).await;
        let event = cloudevents::binding::http::to_event(&headers, body.clone()).unwrap();
        assert_eq!(event.specversion(), SpecVersion::V10);
        assert_eq!(event.id(), id);
        assert_eq!(event.source(), "/namespaces/conformance");
        assert_eq!(event.ty(), "duly.timer.fired");
        assert_eq!(event.subject(), Some("timer%201"));
        assert_eq!(event.time().unwrap().timestamp_millis(), i64::try_from(due_ms).unwrap());
        assert_eq!(event.datacontenttype(), Some(content_type));
        assert!(event.dataschema().is_none() && event.iter_extensions().next().is_none());
        let data = match event.data().unwrap() {
            Data::Binary(bytes) => bytes.clone(),
            Data::String(text) => text.clone().into_bytes(),
            Data::Json(json) => {
                let sent: serde_json::Value = serde_json::from_slice(&body).unwrap();
                assert_eq!(*json, sent);
                continue;
            }
        };
        assert_eq!(data, body);
    }
}

#[tokio::test]
async fn a_firing_without_a_payload_is_an_event_without_data() {
    let web = Web::start().await;
    let mut sent = envelope(web.destination(), b"");
    Arc::make_mut(&mut sent.spec).payload = None;
    let (headers, body) = arrived(sent, &web).await;
    assert!(body.is_empty());
    assert_eq!(headers["content-length"], "0");
    let event = cloudevents::binding::http::to_event(&headers, body).unwrap();
    assert_eq!((event.ty(), event.datacontenttype()), ("duly.timer.fired", None));
}

#[tokio::test]
async fn standard_webhooks_crate_verifies_during_a_rotation() {
    let web = Web::start().await;
    let (old, new) =
        ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
    // The old one alone, both, the new one alone; the results of receivers that know one of them.
    for (signing, by_old, by_new) in
        [(&[old][..], true, false), (&[old, new], true, true), (&[new], false, true)]
    {
        let mut sent = envelope(web.destination(), br#"{"a": "text"}"#);
        sent.signing_secrets = signing.iter().map(|s| SigningSecret::new(s).unwrap()).collect();
        let (headers, body) = arrived(sent, &web).await;
        let verifies = |secret, body: &[u8]| {
            standardwebhooks::Webhook::new(secret).unwrap().verify(body, &headers).is_ok()
        };
        assert_eq!((verifies(old, &body), verifies(new, &body)), (by_old, by_new));
        assert!(!verifies(old, b"another body") && !verifies(new, b"another body"));
    }
}
