use super::*;

#[test]
fn text_forms() {
    let check = |text: &str, ms: u64| assert_eq!(Millis::parse(text).unwrap().ms(), ms, "{text}");
    check("0s", 0);
    check("1ms", 1);
    check("30s", 30_000);
    check("2h30m", 9_000_000);
    check("1d2h3m4s5ms", 93_784_005);
    check("90m", 5_400_000);
    check("0", 0);
    check("00", 0);
}

#[test]
fn p12_a_fraction_of_the_last_unit_rounds_up() {
    let check = |text: &str, ms: u64| assert_eq!(Millis::parse(text).unwrap().ms(), ms, "{text}");
    // As Go and protobuf's JSON print them.
    check("1.5s", 1_500);
    check("1h30m0.25s", 5_400_250);
    check("3.000000001s", 3_001);
    check("0.5d", 43_200_000);
    check("1.5ms", 2);
    check("1.0s", 1_000);
}

#[test]
fn refused_forms() {
    for text in [
        "",
        "s",
        "+1",
        "1x",
        "1m2h",
        "1s1s",
        "1.s",
        ".5s",
        "1.5.5s",
        "1.5h30m",
        "1.5m2.5s",
        "0.0000000000000000000000000000000000000000000000000000000000001s",
        "-1s",
        " 1s",
        "1s ",
        "99999999999999999999",
        "99999999999999999999d",
        "213503982335d",
        "1S",
    ] {
        assert_eq!(Millis::parse(text).unwrap_err().allowed, ALLOWED, "{text}");
    }
}

#[test]
fn p12_a_number_without_a_unit_is_refused() {
    let check = |invalid: Invalid, number: u64| {
        let allowed = format!("a duration with a unit: \"{number}s\" or \"{number}ms\"");
        assert_eq!((invalid.allowed, invalid.seen), (allowed, Some(format!("\"{number}\""))));
    };
    for number in [1, 60, 3_600_000, u64::MAX] {
        check(Millis::from_bare_integer(number.into()).unwrap_err(), number);
        check(Millis::parse(&number.to_string()).unwrap_err(), number);
        assert_eq!(Millis::from_integer(number.into()), Ok(Millis::from_ms(number)));
    }
    assert_eq!(Millis::from_bare_integer(0), Ok(Millis::ZERO));
    let with_unit = "a duration with a unit: \"1.5s\" or \"1.5ms\"";
    assert_eq!(Millis::parse("1.5").unwrap_err().allowed, with_unit);
    assert_eq!(allowed_for_fraction(1.5), with_unit);
    for number in [-1.5, f64::NAN, 1e300] {
        assert_eq!(allowed_for_fraction(number), ALLOWED);
    }
    for number in [-1, i128::MIN, i128::from(u64::MAX) + 1] {
        assert_eq!(Millis::from_bare_integer(number).unwrap_err().allowed, ALLOWED);
    }
}

#[test]
fn display_parses_back() {
    for ms in [0, 1, 999, 1_000, 61_001, 86_400_000, 123_456_789_012] {
        assert_eq!(Millis::parse(&Millis::from_ms(ms).to_string()).unwrap().ms(), ms);
    }
}
