use super::*;

fn ok(text: &str, expected: &str) {
    assert_eq!(Timestamp::parse(text).unwrap().to_string(), expected, "{text}");
}

fn refused(text: &str) {
    let invalid = Timestamp::parse(text).unwrap_err();
    assert_eq!(invalid.allowed, ALLOWED, "{text}");
}

#[test]
fn p12_rfc3339_with_any_offset() {
    ok("2030-01-31T12:00:00Z", "2030-01-31T12:00:00.000Z");
    ok("2030-01-31T12:00:00+08:00", "2030-01-31T04:00:00.000Z");
    ok("2030-01-31t12:00:00.5z", "2030-01-31T12:00:00.500Z");
    ok("1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000Z");
    ok("2200-01-01T00:00:00Z", "2200-01-01T00:00:00.000Z");
}

#[test]
fn p12_digits_below_a_millisecond_round_up() {
    ok("2030-01-01T00:00:00.0000001Z", "2030-01-01T00:00:00.001Z");
    ok("2030-01-01T00:00:00.001Z", "2030-01-01T00:00:00.001Z");
    ok("2030-01-01T00:00:00.999999999Z", "2030-01-01T00:00:01.000Z");
}

#[test]
fn p12_impossible_times_are_errors_never_now() {
    for text in [
        "",
        "now",
        "2030-01-01",
        "2030-01-01T00:00:00",
        "2030-13-01T00:00:00Z",
        "2030-02-30T00:00:00Z",
        "1969-12-31T23:59:59.999Z",
        "2200-01-01T00:00:00.001Z",
        "2200-01-01T00:00:00.0001Z",
        "9999-12-31T23:59:59Z",
        "2030-01-01T25:00:00Z",
        "1893456000000",
    ] {
        refused(text);
    }
    for ms in [-1_i128, i128::from(i64::MIN), i128::from(i64::MAX), 7_258_118_400_001] {
        assert!(Timestamp::from_integer(ms).is_err(), "{ms}");
    }
    assert_eq!(Timestamp::from_integer(7_258_118_400_000).unwrap(), Timestamp::MAX);
}

#[test]
fn p12_sums_are_checked() {
    let day = Millis::from_ms(86_400_000);
    assert_eq!(Timestamp::MAX.checked_add(day), None);
    assert_eq!(Timestamp::MAX.checked_add(Millis::MAX), None);
    assert_eq!(Timestamp::MAX.saturating_add(day), Timestamp::MAX);
    assert_eq!(Timestamp::MIN.checked_add(day).unwrap().unix_ms(), 86_400_000);
}
