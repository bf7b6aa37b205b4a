use super::*;

#[test]
fn times_are_rfc_3339_or_unix_milliseconds() {
    for (text, unix_ms) in [
        ("0", None),
        ("1893456000", None),
        ("253402300800", Some(253_402_300_800)),
        ("1893456000000", Some(1_893_456_000_000)),
        ("2030-01-01T00:00:00Z", Some(1_893_456_000_000)),
        ("2030-01-01T01:00:00.0001+01:00", Some(1_893_456_000_001)),
        ("-1", None),
        ("tomorrow", None),
        ("2201-01-01T00:00:00Z", None),
        ("", None),
    ] {
        assert_eq!(time(text).ok().map(Timestamp::unix_ms), unix_ms, "{text}");
    }
}

#[test]
fn p12_durations_have_a_unit() {
    for (text, ms) in [
        ("0", Some(0)),
        ("250", None),
        ("250ms", Some(250)),
        ("+250", None),
        ("2h30m", Some(9_000_000)),
        ("30m2h", None),
        ("-5s", None),
        ("-5", None),
        ("soon", None),
    ] {
        assert_eq!(duration(text).ok().map(Millis::ms), ms, "{text}");
    }
    assert_eq!(
        duration("30").expect_err("it has no unit"),
        "it must be a duration with a unit: \"30s\" or \"30ms\""
    );
}

#[test]
fn numbers_say_what_they_must_be() {
    assert_eq!(whole::<u32, 1, 1000>("4294967295"), Ok(u32::MAX), "the server refuses it");
    assert_eq!(any_whole("18446744073709551615"), Ok(u64::MAX));
    assert_eq!(within::<1, 1000>("1000"), Ok(1_000));
    assert_eq!(decimal("0.5"), Ok(0.5));
    for text in ["many", "-1", "1.5", "", "4294967296"] {
        let refusal = whole::<u32, 1, 1000>(text).expect_err("no number");
        assert_eq!(refusal, "it must be a whole number from 1 to 1000", "{text}");
    }
    for text in ["0", "1001", "x"] {
        assert!(within::<1, 1000>(text).expect_err("outside").contains("from 1 to 1000"), "{text}");
    }
    assert_eq!(any_whole("-1").expect_err("none"), "it must be a whole number from 0");
    assert!(decimal("inf").is_err() && decimal("half").is_err());
}

#[test]
fn headers_are_split_at_the_first_colon() {
    let of =
        |name: &str, value: &str| Ok(Header { name: name.to_owned(), value: value.to_owned() });
    assert_eq!(header("x-link: http://a:1/"), of("x-link", "http://a:1/"));
    assert_eq!(header("x:"), of("x", ""));
    assert!(header("x").is_err());
    assert!(header(": y").is_err());
}

#[test]
fn json_keeps_its_exact_text() {
    let text = r#"{"b": 1.50, "a":[ ]}"#;
    assert_eq!(json(text).expect("it is JSON").get(), text);
    assert!(json("{a:1}").expect_err("not JSON").contains("line 1"));
}

#[test]
fn servers_are_http_addresses() {
    assert!(server_url("http://127.0.0.1:3859").is_ok());
    assert!(server_url("https://duly.example/base").is_ok());
    assert!(server_url("127.0.0.1:3859").is_err());
    assert!(server_url("localhost:3859").is_err());
    assert!(server_url("ftp://x").is_err());
    assert!(server_url("unix:/run/duly.sock").is_ok());
    assert!(server_url("unix:duly.sock").is_err());
}

#[test]
fn a_listen_address_is_an_ip_address_with_a_port() {
    assert!(listen_address("127.0.0.1:0").is_ok());
    assert!(listen_address("[::1]:3859").is_ok());
    for text in ["4000", "localhost:4000", "127.0.0.1", "127.0.0.1:99999", ""] {
        let refusal = listen_address(text).expect_err("no address");
        assert!(refusal.contains("127.0.0.1:3859"), "{refusal}");
    }
}
