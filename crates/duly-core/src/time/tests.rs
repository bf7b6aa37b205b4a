use super::*;

/// The fault of a date with an offset.
const NO_TIME_BEFORE_OFFSET: &str =
    "the time of day is missing: add T00:00:00 in front of the offset, for instance";
/// The instant of most texts of the table.
const INSTANT: &str = "2031-12-01T09:00:00.000Z";

#[track_caller]
fn ok(text: &str, expected: &str) {
    let read = Timestamp::parse(text).map(|time| time.to_string());
    assert_eq!(read, Ok(expected.to_owned()), "{text}");
}

#[track_caller]
fn refused(text: &str, fault: &str) {
    let invalid = Timestamp::parse(text).expect_err(text);
    assert_eq!(invalid.allowed, format!("an RFC 3339 time ({fault})"), "{text}");
}

#[test]
fn p12_texts_of_other_systems_are_exactly_one_instant() {
    for text in [
        // RFC 3339.
        "2031-12-01T09:00:00Z",
        "2031-12-01t09:00:00z",
        "2031-12-01 09:00:00Z",
        "2031-12-01T09:00:00.0Z",
        "2031-12-01T09:00:00.00000000000000000000Z",
        "2031-12-01T09:00:00-00:00",
        "2031-12-01T10:00:00+01:00",
        "2031-12-01T14:45:00+05:45",
        "2031-11-30T09:01:00-23:59",
        // Java: Instant, OffsetDateTime, ZonedDateTime.
        "2031-12-01T09:00Z",
        "2031-12-01T10:00+01:00",
        "2031-12-01T10:00:00.000000000+01:00",
        "2031-12-01T09:53:28+00:53:28",
        "2031-12-01T10:00+01:00[Europe/Berlin]",
        "2031-12-01T09:00Z[UTC]",
        // RFC 9557.
        "2031-12-01T09:00:00Z[Europe/Berlin][u-ca=gregory][_x=1]",
        "2031-12-01T10:00:00+01:00[+01:00]",
        // .NET: o, u, R; DateTimeOffset in the invariant form.
        "2031-12-01T09:00:00.0000000Z",
        "2031-12-01T10:00:00.0000000+01:00",
        "2031-12-01 09:00:00Z",
        "Mon, 01 Dec 2031 09:00:00 GMT",
        "2031-12-01 10:00:00 +01:00",
        // Go: MarshalText, String.
        "2031-12-01T09:00:00.000000000Z",
        "2031-12-01 09:00:00 +0000 UTC",
        "2031-12-01 10:00:00 +0100 CET",
        "2031-12-01 12:30:00 +0330 +0330",
        "2031-12-01 06:00:00 -0300 -03",
        "2031-12-01 09:00:00 +0000 UTC m=+0.000012345",
        "2031-12-01 09:00:00 +0000 UTC m=-1.5",
        // Python: isoformat, str.
        "2031-12-01T09:00:00+00:00",
        "2031-12-01 09:00:00.000000+00:00",
        // JavaScript: toISOString, toUTCString, toString.
        "2031-12-01T09:00:00.000Z",
        "Mon, 01 Dec 2031 09:00:00 GMT",
        "Mon Dec 01 2031 10:00:00 GMT+0100 (Central European Standard Time)",
        "Mon Dec 01 2031 10:00:00 GMT+0100 (Mitteleuropäische Normalzeit)",
        "Mon Dec 01 2031 10:00:00 GMT+0100",
        // Java's Date, Go's UnixDate, Ruby's ctime with an offset.
        "Mon Dec 01 09:00:00 UTC 2031",
        "Mon Dec  1 09:00:00 GMT 2031",
        "Mon Dec 01 10:00:00 +0100 2031",
        "Mon Dec 01 09:00:00 2031 UTC",
        "Mon Dec 01 10:00:00 2031 +0100",
        // PostgreSQL: timestamptz, in a column and in JSON.
        "2031-12-01 09:00:00+00",
        "2031-12-01 10:00:00+01",
        "2031-12-01 14:30:00+05:30",
        "2031-12-01T09:00:00+00:00",
        // Ruby, ISO 8601.
        "2031-12-01 09:00:00 UTC",
        "2031-12-01 10:00:00 +0100",
        "2031-12-01T09:00:00,000Z",
    ] {
        ok(text, INSTANT);
    }
    ok("1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000Z");
    ok("2200-01-01T00:00:00Z", "2200-01-01T00:00:00.000Z");
}

#[test]
fn p12_digits_below_a_millisecond_round_up() {
    ok("2030-01-01T00:00:00.0000001Z", "2030-01-01T00:00:00.001Z");
    ok("2030-01-01T00:00:00.001Z", "2030-01-01T00:00:00.001Z");
    ok("2030-01-01T00:00:00.0010000000000000001Z", "2030-01-01T00:00:00.002Z");
    ok("2030-01-01T00:00:00.999999999Z", "2030-01-01T00:00:01.000Z");
    ok("2030-01-01T00:00:00.5Z", "2030-01-01T00:00:00.500Z");
    ok("2030-01-01T00:00:00.05Z", "2030-01-01T00:00:00.050Z");
}

#[test]
fn p12_a_leap_second_is_never_moved_to_an_earlier_time() {
    ok("2016-12-31T23:59:60Z", "2017-01-01T00:00:00.000Z");
    ok("2016-12-31T23:59:60.25Z", "2017-01-01T00:00:00.250Z");
    ok("1990-12-31T15:59:60-08:00", "1991-01-01T00:00:00.000Z");
    for text in ["2031-12-01T09:00:60Z", "2031-12-15T23:59:60Z", "2016-12-31T23:59:61Z"] {
        refused(text, "there is no such time of day");
    }
}

#[test]
fn p12_a_text_that_is_not_one_instant_is_refused_with_the_piece() {
    let year_first = "the year comes first: write 2031-12-01T09:00:00Z, for instance";
    let other_form = "write it as 2031-12-01T09:00:00Z, for instance";
    let no_offset = "the offset is missing: add Z or +01:00";
    let two_offsets = "there are two offsets: write one of them";
    let wrong_offset = "there is no such offset: write Z, +01:00 or -08:00";
    for (text, fault) in [
        // Java's LocalDateTime, Python without a zone, .NET without a kind, PostgreSQL's timestamp.
        ("2031-12-01T09:00", no_offset),
        ("2031-12-01T09:00:00", no_offset),
        ("2031-12-01 09:00:00.123456", no_offset),
        ("2031-12-01T09:00:00.0000000", no_offset),
        ("2031-12-01T09:00:00[Europe/Berlin]", no_offset),
        ("2031-12-01", "the time of day and the offset are missing: add T00:00:00Z, for instance"),
        ("2031-12-01Z", NO_TIME_BEFORE_OFFSET),
        ("2031-12-01+01:00", NO_TIME_BEFORE_OFFSET),
        ("2031-12-01T090000Z", "the separators of the time of day are missing: write 09:00:00"),
        ("2031-12-01T09:00.5Z", "a fraction belongs to a second: write 09:00:30, for instance"),
        // ISO 8601's basic form.
        ("20311201T090000Z", "the separators are missing: write 2031-12-01T09:00:00Z"),
        ("20311201T1000+0100", "the separators are missing: write 2031-12-01T10:00+0100"),
        ("20311201T090000", no_offset),
        ("20311201Z", NO_TIME_BEFORE_OFFSET),
        // The invariant form of .NET, and other orders.
        ("12/01/2031 09:00:00 +00:00", year_first),
        ("12/1/2031 9:00:00 AM +00:00", year_first),
        ("01.12.2031 09:00:00Z", year_first),
        ("2031/12/01 09:00:00Z", "the date has other separators: write 2031-12-01"),
        // RFC 822, RFC 850, RFC 5322 without a weekday.
        ("01 Dec 31 09:00 UTC", other_form),
        ("Mon, 01 Dec 31 09:00:00 +0000", other_form),
        ("Monday, 01-Dec-31 09:00:00 UTC", other_form),
        ("01 Dec 2031 09:00:00 +0000", other_form),
        ("2031-12-01T09Z", "the minute is missing: write 09:00, for instance"),
        ("2031-12-01T09:00:00.Z", "digits after the point are missing"),
        // A query turns + into a space.
        (
            "2031-12-01T10:00:00 01:00",
            "the sign of the offset is missing: write +01:00; in a URL + is %2B",
        ),
        ("2031-12-01 10:00:00 CET", "\"CET\" names no offset: write Z or +01:00 in its place"),
        ("2031-12-01T09:00:00 AM", "\"AM\" names no offset: write Z or +01:00 in its place"),
        // Java's Date, Go's UnixDate; Python's ctime.
        (
            "Mon Dec 01 10:00:00 CET 2031",
            "\"CET\" names no offset: write 2031-12-01T10:00:00+01:00, for instance",
        ),
        (
            "Mon Dec  1 09:00:00 2031",
            "the offset is missing: write 2031-12-01T09:00:00Z or 2031-12-01T09:00:00+01:00",
        ),
        (
            "Mon Dec 01 2031 09:00:00",
            "the offset is missing: write 2031-12-01T09:00:00Z or 2031-12-01T09:00:00+01:00",
        ),
        ("Mon Dec 01 25:00:00 UTC 2031", "there is no such time of day"),
        ("Mon Dec 01 25:00:00 2031", "there is no such time of day"),
        // Go's String in a query.
        (
            "2031-12-01 10:00:00  0100 CET",
            "the sign of the offset is missing: write +01:00; in a URL + is %2B",
        ),
        ("2031-12-01 10:00:00 +0100 UTC", two_offsets),
        ("2031-12-01T10:00:00Z+01:00", two_offsets),
        ("2031-12-01T10:00:00Z +01:00", two_offsets),
        ("2031-12-01 12:30:00 +0330 +0430", two_offsets),
        ("2031-12-01T09:00:00+25:00", wrong_offset),
        ("2031-12-01T09:00:00+01:60", wrong_offset),
        ("2031-12-01T09:00:00+1", wrong_offset),
        (
            "2031-12-01T10:00:00+01:00[!Europe/Berlin]",
            "a zone with ! asks for a check that Duly does not make: the offset is enough",
        ),
        ("2030-13-01T00:00:00Z", "there is no such date"),
        ("2030-02-30T00:00:00Z", "there is no such date"),
        ("2030-01-01T25:00:00Z", "there is no such time of day"),
        ("2030-01-01T24:00:00Z", "there is no such time of day"),
        ("Tue, 01 Dec 2031 09:00:00 GMT", "the date has another weekday"),
        ("2031-12-01T09:00:00Zulu", "leave out \"ulu\" at the end"),
        ("2031-12-01T09:00:00Z[Europe/Berlin", "leave out \"[Europe/Berlin\" at the end"),
        ("2031-12-01T09:00:00Z[]", "leave out \"[]\" at the end"),
        ("2031-12-01T09:00:00Z ", "leave out \" \" at the end"),
        ("2031-12-01T09:00:00Z or so", "leave out \" or so\" at the end"),
    ] {
        refused(text, fault);
    }
}

#[test]
fn p12_impossible_times_are_errors_never_now() {
    for text in [
        "",
        "now",
        "tomorrow",
        "infinity",
        "31-12-01T09:00:00Z",
        "2031-12-1T09:00:00Z",
        "+002031-12-01T09:00:00Z",
        "Mon, 01 Dec 2031",
        "Mon Dec 01 UTC 2031",
        "2031-12-01T09:00:00−05:00",
        "1969-12-31T23:59:59.999Z",
        "2200-01-01T00:00:00.001Z",
        "2200-01-01T00:00:00.0001Z",
        "9999-12-31T23:59:59Z",
        "9999-12-31T23:59:60Z",
        "20311201090000",
    ] {
        assert_eq!(Timestamp::parse(text).expect_err(text).allowed, ALLOWED, "{text}");
    }
    for ms in [-1_i128, i128::from(i64::MIN), i128::from(i64::MAX), 7_258_118_400_001] {
        assert!(Timestamp::from_integer(ms).is_err(), "{ms}");
    }
    assert_eq!(Timestamp::from_integer(7_258_118_400_000).unwrap(), Timestamp::MAX);
}

/// Checks that an error names the allowed times with this hint, and that the milliseconds of the hint are accepted.
#[track_caller]
fn hinted(allowed: &str, hint: &str) {
    let hint = if hint.is_empty() { String::new() } else { format!(" ({hint})") };
    assert_eq!(allowed, format!("{ALLOWED}{hint}"));
    for number in hint.split([' ', ')']).filter_map(|word| word.parse().ok()) {
        assert!(Timestamp::from_bare_integer(number).is_ok(), "{hint}");
    }
}

#[test]
fn p12_a_number_of_another_unit_is_refused_with_milliseconds() {
    for (number, hint) in [
        (0, ""),
        (1, ""),
        (86_400, ""),
        (99_999_999, ""),
        (100_000_000, ""),
        (253_402_301, "seconds? 253402301000 is in milliseconds"),
        (1_795_287_316, "seconds? 1795287316000 is in milliseconds"),
        (7_258_118_400, "seconds? 7258118400000 is in milliseconds"),
        (7_258_118_401, "seconds? The time is after the last one"),
        // The last second of the year 9999, which means "never" elsewhere; it would be a time of 1978.
        (253_402_300_799, "seconds? The time is after the last one"),
        (253_402_300_799_000, ""),
        (1_795_287_316_000_000, "microseconds? 1795287316000 is in milliseconds"),
        (1_795_287_316_000_001, "microseconds? 1795287316001 is in milliseconds"),
        (1_795_287_316_000_000_000, "nanoseconds? 1795287316000 is in milliseconds"),
        (1_795_287_316_000_000_001, "nanoseconds? 1795287316001 is in milliseconds"),
        (-1, ""),
        (7_258_118_400_001, ""),
        (i128::MAX, ""),
        (i128::MIN, ""),
    ] {
        hinted(&Timestamp::from_bare_integer(number).unwrap_err().allowed, hint);
    }
    for ms in [253_402_300_800, 1_795_287_316_000, 7_258_118_400_000] {
        assert_eq!(Timestamp::from_bare_integer(ms), Timestamp::from_integer(ms));
    }
    ok("1970-01-21T18:41:27.316Z", "1970-01-21T18:41:27.316Z");
}

#[test]
fn p12_a_fraction_or_digits_are_refused_with_milliseconds() {
    for (number, hint) in [
        (1_795_287_316.5, "seconds? 1795287316500 is in milliseconds"),
        (1_795_287_316.123, "seconds? 1795287316123 is in milliseconds"),
        (1_795_287_316.123_456, "seconds? 1795287316124 is in milliseconds"),
        (1_795_287_316_000.0, "without a fraction: 1795287316000"),
        (1_795_287_316_000.25, "without a fraction: 1795287316001"),
        (1_795_287_316_000_000.5, "microseconds? 1795287316001 is in milliseconds"),
        (0.5, ""),
        (-1.5, ""),
        (f64::NAN, ""),
        (1e300, ""),
    ] {
        hinted(&allowed_for_fraction(number), hint);
    }
    for (text, hint) in [
        ("1795287316", "seconds? 1795287316000 is in milliseconds, without quotes"),
        (
            "1795287316.123456",
            "seconds? 1795287316124 is in milliseconds, without quotes and fraction",
        ),
        ("1795287316000", "without quotes: 1795287316000"),
        ("1795287316000.25", "without quotes and fraction: 1795287316001"),
    ] {
        hinted(&Timestamp::parse(text).unwrap_err().allowed, hint);
    }
}

#[test]
fn p12_sums_are_checked() {
    let day = Millis::from_ms(86_400_000);
    assert_eq!(Timestamp::MAX.checked_add(day), None);
    assert_eq!(Timestamp::MAX.checked_add(Millis::MAX), None);
    assert_eq!(Timestamp::MAX.saturating_add(day), Timestamp::MAX);
    assert_eq!(Timestamp::MIN.checked_add(day).unwrap().unix_ms(), 86_400_000);
}
