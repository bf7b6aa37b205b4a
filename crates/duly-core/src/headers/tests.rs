use super::*;

fn one(name: &str, value: &str) -> Result<Headers, Invalid> {
    Headers::new([(name.to_owned(), value.to_owned())])
}

#[test]
fn p11_values_stay_as_given_and_names_are_lowered() {
    let headers = one("X-Order", "a  b=1; c").unwrap();
    assert_eq!(headers.get("x-order"), Some("a  b=1; c"));
    assert_eq!(one("content-type", "image/png").unwrap().len(), 1);
}

#[test]
fn refused_names() {
    for name in [
        "",
        "a b",
        "ä",
        "ce-id",
        "Webhook-Id",
        "DULY-x",
        "Host",
        "TE",
        "expect",
        "Connection",
        "content-length",
        "transfer-encoding",
        "Forwarded",
        "X-Forwarded-For",
        "x-forwarded-anything",
        "X-Real-IP",
    ] {
        assert_eq!(one(name, "v").unwrap_err().field, name, "as its caller wrote it");
    }
    for name in ["x-forwarded", "forwarded-for", "x-real-ips"] {
        assert!(one(name, "v").is_ok(), "{name}");
    }
}

#[test]
fn the_first_fault_is_named() {
    let pairs = ["A", "a", "Host"].map(|name| (name.to_owned(), String::new()));
    assert_eq!(Headers::new(pairs).unwrap_err().field, "", "it is about two names");
    assert_eq!(one("X-Key", " x").unwrap_err().field, "x-key");
}

#[test]
fn refused_values() {
    for value in [" a", "a ", "a\r\nb: c", "ü", "\t"] {
        let invalid = one("x", value).unwrap_err();
        assert_eq!((invalid.field.as_str(), invalid.seen), ("x", None), "{value:?}");
    }
}

#[test]
fn values_are_shown_of_harmless_headers_only() {
    for name in ["authorization", "cookie", "x-api-key", "x-auth", "apikey", "x-vault", "key"] {
        assert!(!is_shown(name), "{name}");
    }
    for name in ["content-type", "accept", "traceparent", "x-request-id"] {
        assert!(is_shown(name), "{name}");
    }
}

#[test]
fn limits() {
    let many = |n: usize| Headers::new((0..n).map(|i| (format!("h{i}"), String::new())));
    assert!(many(64).is_ok());
    assert!(many(65).is_err());
    assert!(one("x", &"v".repeat(BYTES_MAX - 1)).is_ok());
    assert!(one("x", &"v".repeat(BYTES_MAX)).is_err());
    assert!(Headers::new([("A".into(), "1".into()), ("a".into(), "2".into())]).is_err());
}
