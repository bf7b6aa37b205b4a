use super::*;

#[test]
fn names_field_seen_and_allowed() {
    let invalid = Invalid::new("max_attempts", 0, "1 to 1000").within("retry");
    assert_eq!(invalid.to_string(), "retry.max_attempts must be 1 to 1000; got \"0\"");
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
