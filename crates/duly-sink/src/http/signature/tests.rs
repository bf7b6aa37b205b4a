use standardwebhooks::Webhook;

use super::*;

const OLD: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const NEW: &str = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
const ID_VALUE: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";

fn secret(text: &str) -> SigningSecret {
    SigningSecret::new(text).unwrap()
}

fn now() -> Timestamp {
    let since = std::time::UNIX_EPOCH.elapsed().unwrap();
    Timestamp::from_unix_ms(u64::try_from(since.as_millis()).unwrap()).unwrap()
}

fn seconds(at: Timestamp) -> u64 {
    at.unix_ms() / 1_000
}

fn headers(secrets: &[&str], at_s: u64, body: &[u8]) -> HeaderMap {
    let secrets: Vec<_> = secrets.iter().map(|text| secret(text)).collect();
    let signature = signatures(&secrets, ID_VALUE, at_s, body).unwrap();
    let mut map = HeaderMap::new();
    map.insert(ID, ID_VALUE.parse().unwrap());
    map.insert(TIMESTAMP, at_s.to_string().parse().unwrap());
    map.insert(SIGNATURE, signature.parse().unwrap());
    map
}

#[test]
fn s3_signs_as_the_third_party_crate_does() {
    for body in [&b""[..], br#"{"test": 2432232314}"#, "caf\u{e9}".as_bytes()] {
        let theirs = Webhook::new(OLD).unwrap().sign(ID_VALUE, 1_614_265_330, body).unwrap();
        assert_eq!(signatures(&[secret(OLD)], ID_VALUE, 1_614_265_330, body).unwrap(), theirs);
    }
    // The known result of the specification's libraries.
    assert_eq!(
        signatures(&[secret(OLD)], ID_VALUE, 1_614_265_330, br#"{"test": 2432232314}"#).unwrap(),
        "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    );
}

#[test]
fn s3_the_example_of_the_page_is_right() {
    let page = include_str!("../../../../../docs/reference/webhooks.md");
    let value = |name: &str| {
        let row = page.lines().find_map(|line| line.strip_prefix(&format!("| {name} | `")));
        row.unwrap_or_else(|| panic!("{name}")).trim_end_matches("` |")
    };
    let example = secret(value("secret"));
    let hex = data_encoding::HEXLOWER.encode(&key(&example).unwrap());
    assert_eq!(hex, value("key, in hexadecimal"));
    let at_s = value("`webhook-timestamp`").parse().unwrap();
    let made = signatures(&[example], value("`webhook-id`"), at_s, value("body").as_bytes());
    assert_eq!(made.unwrap(), value("`webhook-signature`"));
}

#[test]
fn s3_either_secret_verifies_during_a_rotation() {
    let body = b"payload";
    let map = headers(&[OLD, NEW], seconds(now()), body);
    for known in [OLD, NEW] {
        assert_eq!(verify(&[secret(known)], &map, body, now()), Ok(()), "{known}");
        Webhook::new(known).unwrap().verify(body, &map).unwrap();
    }
    // A receiver that knows both accepts a delivery signed with one.
    let map = headers(&[NEW], seconds(now()), body);
    assert_eq!(verify(&[secret(OLD), secret(NEW)], &map, body, now()), Ok(()));
}

#[test]
fn what_the_third_party_crate_signs_verifies_here() {
    let at_s = seconds(now());
    let mut map = headers(&[NEW], at_s, b"x");
    let theirs = Webhook::new(OLD).unwrap().sign(ID_VALUE, i64::try_from(at_s).unwrap(), b"x");
    map.insert(SIGNATURE, theirs.unwrap().parse().unwrap());
    assert_eq!(verify(&[secret(OLD)], &map, b"x", now()), Ok(()));
}

#[test]
fn a_body_that_is_no_text_is_signed_and_verified() {
    let body: Vec<u8> = (0..=255).collect();
    let map = headers(&[OLD], seconds(now()), &body);
    assert_eq!(verify(&[secret(OLD)], &map, &body, now()), Ok(()));
    let changed = [&body[..255], b"x"].concat();
    let wrong = Err(SignatureError::NotMade { found: 1, secrets: 1 });
    assert_eq!(verify(&[secret(OLD)], &map, &changed, now()), wrong);
}

#[test]
fn verify_names_the_fault() {
    let (body, at_s) = (b"body", seconds(now()));
    let good = headers(&[OLD], at_s, body);
    let check = |change: fn(&mut HeaderMap), expected: SignatureError| {
        let mut map = good.clone();
        change(&mut map);
        assert_eq!(verify(&[secret(OLD)], &map, body, now()), Err(expected.clone()), "{expected}");
    };
    check(|map| drop(map.remove(ID)), SignatureError::Missing(ID));
    check(|map| drop(map.remove(TIMESTAMP)), SignatureError::Missing(TIMESTAMP));
    check(|map| drop(map.remove(SIGNATURE)), SignatureError::Missing(SIGNATURE));
    let unreadable = SignatureError::Unreadable(TIMESTAMP, "Unix seconds");
    check(|map| drop(map.insert(TIMESTAMP, "soon".parse().unwrap())), unreadable);
    check(
        |map| drop(map.insert(SIGNATURE, "v1a,AAAA".parse().unwrap())),
        SignatureError::NoVersion1,
    );
    check(|map| drop(map.insert(SIGNATURE, "v1,?".parse().unwrap())), SignatureError::NoVersion1);
    let not_made = SignatureError::NotMade { found: 1, secrets: 1 };
    check(|map| drop(map.insert(ID, "another".parse().unwrap())), not_made.clone());
    // A correct beginning is not enough.
    check(|map| drop(map.insert(SIGNATURE, "v1,".parse().unwrap())), not_made);
    let later = |ms: u64| Timestamp::from_unix_ms(at_s * 1_000 + ms).unwrap();
    assert_eq!(verify(&[secret(OLD)], &good, body, later(300_999)), Ok(()));
    let old = verify(&[secret(OLD)], &good, body, later(301_000)).unwrap_err();
    assert_eq!(old, SignatureError::TooOld { by_s: 301 });
    let early = Timestamp::from_unix_ms((at_s - 301) * 1_000).unwrap();
    assert_eq!(
        verify(&[secret(OLD)], &good, body, early),
        Err(SignatureError::TooNew { by_s: 301 })
    );
    let other = verify(&[secret(NEW)], &good, body, now()).unwrap_err().to_string();
    assert!(other.contains("the secret given here") && !other.contains("AAAA"), "{other}");
}
