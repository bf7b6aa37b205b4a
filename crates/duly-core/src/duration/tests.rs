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
}

#[test]
fn refused_forms() {
    for text in [
        "",
        "s",
        "1",
        "1x",
        "1m2h",
        "1s1s",
        "1.5s",
        "-1s",
        " 1s",
        "1s ",
        "99999999999999999999d",
        "213503982335d",
        "1S",
    ] {
        assert_eq!(Millis::parse(text).unwrap_err().allowed, ALLOWED, "{text}");
    }
}

#[test]
fn display_parses_back() {
    for ms in [0, 1, 999, 1_000, 61_001, 86_400_000, 123_456_789_012] {
        assert_eq!(Millis::parse(&Millis::from_ms(ms).to_string()).unwrap().ms(), ms);
    }
}
