use super::*;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    pairs
        .iter()
        .map(|(name, value)| {
            let name = axum::http::HeaderName::from_static(name);
            (name, value.parse().expect("a header value"))
        })
        .collect()
}

#[test]
fn ids_are_decoded() {
    for (encoded, id) in [
        ("order:42", "order:42"),
        ("a%20b%25c", "a b%c"),
        ("gr%C3%B6%C3%9Fe", "größe"),
        ("50%", "50%"),
        ("%zz", "%zz"),
        ("%FF", "%FF"),
    ] {
        assert_eq!(percent_decoded(encoded), id, "{encoded}");
    }
}

#[test]
fn a_line_has_lateness_attempt_ids_and_payload() {
    let headers = headers(&[
        ("duly-due-at", "2020-01-01T00:00:00.000Z"),
        ("duly-attempt", "3"),
        ("ce-subject", "a%20b"),
        ("webhook-id", "MFRGG"),
    ]);
    let delivery = Delivery::new(&headers, b"{\"n\":1}", Signature::Valid, 204);
    assert!(delivery.lateness_ms.is_some_and(|late_ms| late_ms > 0.0));
    let line = delivery.line(OutputStream::default());
    // Whole days have no hours after them.
    for part in
        [" late  attempt 3  a b  delivery MFRGG  signature valid  answered 204", "{\"n\":1}"]
    {
        assert!(line.contains(part), "{line}");
    }
}

#[test]
fn foreign_requests_are_reported_as_such() {
    let delivery = Delivery::new(&HeaderMap::new(), b"hello", Signature::Unchecked, 200);
    let line = delivery.line(OutputStream::default());
    assert!(line.contains("not from Duly  answered 200"), "{line}");
    let wrong = Signature::Wrong("there is no\u{1b}[2J header".to_owned());
    let delivery = Delivery::new(&HeaderMap::new(), b"hello", wrong, 401);
    let line = delivery.line(OutputStream::default());
    assert!(line.contains("SIGNATURE WRONG: there is no\\u{1b}[2J header  answered 401"), "{line}");
}

#[test]
fn unchecked_signature_is_reported() {
    let signed = headers(&[("webhook-signature", "v1,x"), ("webhook-id", "MFRGG")]);
    let delivery = Delivery::new(&signed, b"hello", Signature::Unchecked, 200);
    let line = delivery.line(OutputStream::default());
    assert!(line.contains("signature not checked: no --secret-file"), "{line}");
}

#[test]
fn standard_webhooks_signatures_are_verified() {
    let webhook = standardwebhooks::Webhook::new(SECRET).expect("a secret");
    let now_s = now().unix_ms() / 1_000;
    let signed_at = |at_s: u64| {
        let stamp = i64::try_from(at_s).expect("in range");
        let signed = webhook.sign("MFRGG", stamp, b"x").expect("signed");
        headers(&[
            ("webhook-id", "MFRGG"),
            ("webhook-timestamp", &stamp.to_string()),
            ("webhook-signature", &signed),
        ])
    };
    let good = signed_at(now_s);
    let secret = |text: &str| SigningSecret::new(text).expect("a secret");
    let known = [secret("whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"), secret(SECRET)];
    assert_eq!(Signature::check(&known, &good, b"x"), Signature::Valid);
    assert_eq!(Signature::check(&[], &good, b"x"), Signature::Unchecked);
    let wrong = |secrets: &[SigningSecret], headers: &HeaderMap, body: &[u8], part: &str| {
        match Signature::check(secrets, headers, body) {
            Signature::Wrong(why) => assert!(why.contains(part), "{why}"),
            other => panic!("{other:?}"),
        }
    };
    wrong(&known[1..], &good, b"y", "the body or a webhook header was changed");
    wrong(&known[..1], &good, &[0xff], "none of the 1 signature(s) was made with the secret");
    wrong(&known, &HeaderMap::new(), b"x", "no webhook-signature header");
    wrong(&known, &signed_at(now_s - 1_000), b"x", "s before this machine's clock");
    wrong(&known, &signed_at(now_s + 1_000), b"x", "s after this machine's clock");
}
