use super::*;

#[test]
fn names_field_seen_and_allowed() {
    let invalid = Invalid::new("max_attempts", 0, "1 to 1000").within("retry");
    assert_eq!(invalid.to_string(), "retry.max_attempts must be 1 to 1000; got \"0\"");
}

#[test]
fn an_unknown_name_is_said_with_the_meant_or_the_known_ones() {
    let unknown = |meant: Option<&str>, known: &[&str]| {
        let known = known.iter().copied();
        Invalid::unknown("field", "dealy", "dealy", meant, known).within("operations[0]")
    };
    for (invalid, cure) in [
        (unknown(Some("delay"), &["delay"]), "did you mean operations[0].delay?"),
        (unknown(None, &["a", "b"]), "known here: a, b"),
        (unknown(None, &[]), "no field is known here"),
    ] {
        assert_eq!(invalid.to_string(), format!("unknown field operations[0].dealy: {cure}"));
        assert_eq!(invalid.allowed, format!("left out; {cure}"));
        assert_eq!(invalid.seen.as_deref(), Some("\"dealy\""));
    }
}

#[test]
fn paths_join_with_dots_and_brackets() {
    let check = |field: &str, outer: &str, expected: &str| {
        assert_eq!(Invalid::unseen(field, "x").within(outer).field, expected);
    };
    check("", "tags", "tags");
    check("[3]", "tags", "tags[3]");
    check("url", "destination.http", "destination.http.url");
    check("url", "", "url");
}

#[test]
fn long_and_odd_values_are_shortened() {
    let seen = shorten(&"x".repeat(500));
    assert_eq!(seen.chars().count(), SEEN_CHARS_MAX + 3);
    assert_eq!(shorten("a\0b\n"), "\"a\\u{0}b\\n\"");
}
