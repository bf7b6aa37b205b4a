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
fn p12_integers_that_count_seconds_are_refused() {
    for (number, hint) in [
        (0, None),
        (1, None),
        (86_400, None),
        (99_999_999, None),
        (100_000_000, Some("100000000000")),
        (1_795_287_316, Some("1795287316000")),
        (7_258_118_400, Some("7258118400000")),
        (7_258_118_401, None),
        (99_999_999_999, None),
    ] {
        let allowed = Timestamp::from_bare_integer(number).unwrap_err().allowed;
        assert!(allowed.starts_with("in milliseconds, from 100000000000 on"), "{allowed}");
        let shown = allowed.split_once(" (").and_then(|(_, rest)| rest.split_once(','));
        assert_eq!(shown.map(|(ms, _)| ms), hint, "{number}: {allowed}");
    }
    for ms in [100_000_000_000, 1_795_287_316_000, 7_258_118_400_000] {
        assert_eq!(Timestamp::from_bare_integer(ms), Timestamp::from_integer(ms));
    }
    for number in [-1, 7_258_118_400_001, i128::MAX] {
        assert_eq!(Timestamp::from_bare_integer(number).unwrap_err().allowed, ALLOWED, "{number}");
    }
    ok("1970-01-21T18:41:27.316Z", "1970-01-21T18:41:27.316Z");
}

#[test]
fn p12_sums_are_checked() {
    let day = Millis::from_ms(86_400_000);
    assert_eq!(Timestamp::MAX.checked_add(day), None);
    assert_eq!(Timestamp::MAX.checked_add(Millis::MAX), None);
    assert_eq!(Timestamp::MAX.saturating_add(day), Timestamp::MAX);
    assert_eq!(Timestamp::MIN.checked_add(day).unwrap().unix_ms(), 86_400_000);
}
