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
    let line = delivery.line();
    for part in
        [" ms late  attempt 3  a b  delivery MFRGG  signature valid  answered 204", "{\"n\":1}"]
    {
        assert!(line.contains(part), "{line}");
    }
}

#[test]
fn what_is_not_from_duly_is_said_to_be() {
    let delivery = Delivery::new(&HeaderMap::new(), b"hello", Signature::Unchecked, 200);
    assert!(delivery.line().contains("not from Duly"), "{}", delivery.line());
}

#[test]
fn signatures_are_valid_wrong_or_unchecked() {
    let webhook = Webhook::new(SECRET).expect("a secret");
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    let stamp = i64::try_from(now_s).expect("in range");
    let signed = webhook.sign("MFRGG", stamp, b"x").expect("signed");
    let headers = headers(&[
        ("webhook-id", "MFRGG"),
        ("webhook-timestamp", &stamp.to_string()),
        ("webhook-signature", &signed),
    ]);
    let check =
        |webhook, headers: &HeaderMap, body: &[u8]| Signature::check(webhook, headers, body);
    assert_eq!(check(Some(&webhook), &headers, b"x"), Signature::Valid);
    assert_eq!(check(None, &headers, b"x"), Signature::Unchecked);
    assert_eq!(check(Some(&webhook), &headers, &[0xff]), Signature::Uncheckable);
    assert!(matches!(check(Some(&webhook), &headers, b"y"), Signature::Wrong(_)));
    assert!(matches!(check(Some(&webhook), &HeaderMap::new(), b"x"), Signature::Wrong(_)));
}
