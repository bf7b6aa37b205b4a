use super::*;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
struct Outer {
    #[allow(dead_code)]
    inner: Option<Vec<Inner>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a JSON object")]
struct Inner {
    #[allow(dead_code)]
    a: String,
    #[allow(dead_code)]
    b: Option<bool>,
}

#[test]
fn says_where_what_was_seen_and_what_is_allowed() {
    let check = |text: &str, field: &str, seen: Option<&str>, allowed: &str| {
        let invalid = parse_body::<Outer>(text.as_bytes()).unwrap_err();
        assert_eq!(
            (invalid.field.as_str(), invalid.seen.as_deref(), invalid.allowed.as_str()),
            (field, seen, allowed),
            "{text}"
        );
    };
    check("", "body", Some("nothing"), "a JSON object");
    check("[]", "body", Some("[]"), "a JSON object");
    check("7", "body", Some("7"), "a JSON object");
    check("{\"outer\":1}", "outer", Some("\"outer\""), "left out; known here: inner");
    check("{\"inner\":{}}", "inner", Some("{}"), "a JSON array");
    check("{\"inner\":[{}]}", "inner[0].a", None, "given");
    check("{\"inner\":[{\"a\":\"x\"},{\"a\":5}]}", "inner[1].a", Some("5"), "a string");
    check("{\"inner\":[{\"a\":\"x\",\"b\":\"y\"}]}", "inner[0].b", Some("\"y\""), "a boolean");
    check("{\"inner\":[{\"a\":\"x\",\"a\":\"y\"}]}", "inner[0].a", None, "given only once");
    check(
        "{\"inner\":[{\"a\":\"x\",\"c\":1}]}",
        "inner[0].c",
        Some("\"c\""),
        "left out; known here: a, b",
    );
}

#[test]
fn malformed_text_is_named_as_such() {
    for text in ["{", "{\"inner\":}", "{} {}", "nul", "{\"inner\":[\"\\u12\"]}"] {
        let invalid = parse_body::<Outer>(text.as_bytes()).unwrap_err();
        assert_eq!(
            (invalid.field.as_str(), invalid.allowed.as_str()),
            ("body", "well-formed JSON"),
            "{text}"
        );
    }
}

#[test]
fn another_encoding_is_named() {
    let utf16 = |order: fn(u16) -> [u8; 2]| -> Vec<u8> {
        "\u{feff}{}".encode_utf16().flat_map(order).collect()
    };
    for (text, seen) in [
        (b"\xef\xbb\xbf{}".to_vec(), "a byte order mark (EF BB BF) at the beginning"),
        (utf16(u16::to_le_bytes), "UTF-16 (a byte order mark of it at the beginning)"),
        (utf16(u16::to_be_bytes), "UTF-16 (a byte order mark of it at the beginning)"),
        (utf16(u16::to_le_bytes)[2..].to_vec(), "UTF-16 or UTF-32 (a zero byte at the beginning)"),
        (utf16(u16::to_be_bytes)[2..].to_vec(), "UTF-16 or UTF-32 (a zero byte at the beginning)"),
        (b"{\"inner\":\"\xfc\"}".to_vec(), "another encoding (the byte FC at offset 10)"),
    ] {
        let invalid = parse_body::<Outer>(&text).unwrap_err();
        let expected = format!("body must be JSON in UTF-8 without a byte order mark; got {seen}");
        assert_eq!(invalid.to_string(), expected);
        assert_eq!(parse::<Outer>(&text).unwrap_err().seen.as_deref(), Some(seen));
    }
}

#[test]
fn no_secret_is_shown() {
    use crate::{NamespaceSettings, Schedule};
    let check = |invalid: Invalid, field: &str, text: &str| {
        assert_eq!(invalid.field, field, "{text}");
        assert!(!invalid.to_string().contains("hunter2"), "{text}: {invalid}");
    };
    for (text, field) in [
        (r#"{"signing_secrets":"hunter2"}"#, "signing_secrets"),
        (r#"{"signing_secrets":{"a":"hunter2"}}"#, "signing_secrets"),
        (r#"{"signing_secrets":["a",["hunter2"]]}"#, "signing_secrets[1]"),
        (r#"{"destination":{"http":"http://u:hunter2@h/"}}"#, "destination.http"),
        (
            r#"{"destination":{"http":{"url":"http://h/","headers":{"authorization":["hunter2"]}}}}"#,
            "destination.http.headers.authorization",
        ),
    ] {
        check(parse_body::<NamespaceSettings>(text.as_bytes()).unwrap_err(), field, text);
    }
    for text in [r#"{"headers":"hunter2"}"#, r#"{"headers":["hunter2"]}"#] {
        check(parse_body::<Schedule>(text.as_bytes()).unwrap_err(), "headers", text);
    }
}

#[test]
fn an_array_is_never_taken_for_an_object() {
    #[derive(Debug, Deserialize)]
    #[serde(expecting = "a JSON object")]
    struct Empty {}

    fn check<'a, T: Deserialize<'a> + std::fmt::Debug>(taken: &'a str, refused: &'a str) {
        parse::<T>(taken.as_bytes()).expect(taken);
        let invalid = parse::<T>(refused.as_bytes()).expect_err(refused);
        assert!(
            invalid.allowed.contains("object") || invalid.allowed.contains("struct"),
            "{invalid}"
        );
    }
    check::<Empty>("{}", "[]");
    check::<Option<Empty>>("{}", "[]");
    check::<Vec<Empty>>("[{}]", "[[]]");
    check::<std::collections::BTreeMap<String, Empty>>(r#"{"a":{}}"#, r#"{"a":[]}"#);
    check::<Inner>(r#"{"a":"x","b":true}"#, r#"["x",true]"#);
    check::<Outer>(r#"{"inner":[{"a":"x"}]}"#, r#"{"inner":[["x",null]]}"#);
}
