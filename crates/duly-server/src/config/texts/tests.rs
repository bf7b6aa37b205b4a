use super::*;

#[track_caller]
fn check<T: TextValue>(text: &str, expected: Option<&str>) {
    let read = T::parse(text).map(|value| value.to_string());
    assert_eq!(read.as_deref(), expected, "{text:?}");
}

#[test]
fn a_host_is_a_name_or_an_address_and_nothing_else() {
    for (text, expected) in [
        ("duly.example.com", Some("duly.example.com")),
        ("Duly.Example.com", Some("duly.example.com")),
        ("duly_1", Some("duly_1")),
        ("müller.example", Some("xn--mller-kva.example")),
        ("10.0.0.1", Some("10.0.0.1")),
        ("fd00::1", Some("fd00::1")),
        ("[fd00::1]", Some("fd00::1")),
        ("duly.example.com:443", None),
        ("[fd00::1]:443", None),
        ("https://duly.example.com", None),
        ("duly.example.com/", None),
        ("*.example.com", None),
        ("*", None),
        ("duly..example.com", None),
        (".example.com", None),
        ("a b", None),
        ("2130706433", None),
    ] {
        check::<Host>(text, expected);
    }
}

#[test]
fn an_origin_is_scheme_host_and_port_as_browsers_write_it() {
    for (text, expected) in [
        ("https://console.example", Some("https://console.example")),
        ("HTTPS://Console.Example", Some("https://console.example")),
        ("https://console.example:443", Some("https://console.example")),
        ("http://console.example:8080", Some("http://console.example:8080")),
        ("http://[fd00::1]:8080", Some("http://[fd00::1]:8080")),
        ("moz-extension://0f3c-1", Some("moz-extension://0f3c-1")),
        ("example.com", None),
        ("example.com:443", None),
        ("//example.com", None),
        ("https:example.com", None),
        ("https://console.example/", None),
        ("https://console.example/app", None),
        ("https://console.example?x", None),
        ("https://user@console.example", None),
        ("https://*.example", None),
        ("https://console..example", None),
        ("https://", None),
        ("file:///index.html", None),
        ("file://host", None),
        ("null", None),
        ("*", None),
    ] {
        check::<WebOrigin>(text, expected);
    }
}

#[test]
fn ports_are_one_or_a_range_that_goes_up() {
    for (text, expected) in [
        ("443", Some(443..=443)),
        (" 8000 - 8999 ", Some(8000..=8999)),
        ("1-65535", Some(1..=65535)),
        ("0", None),
        ("0-5", None),
        ("9-8", None),
        ("65536", None),
        ("http", None),
        ("-5", None),
    ] {
        assert_eq!(PortRange::parse(text).map(|range| range.0), expected, "{text:?}");
    }
    assert_eq!(PortRange(443..=443).to_string(), "443");
    assert_eq!(PortRange(1..=2).to_string(), "1-2");
}

#[test]
fn a_proxy_is_host_and_port_and_no_password() {
    for (text, expected) in [
        ("http://proxy.example:3128", Some("http://proxy.example:3128")),
        ("http://PROXY.example/", Some("http://proxy.example:80")),
        ("http://[fd00::1]:3128", Some("http://[fd00::1]:3128")),
        ("http://user:password@proxy.example:3128", None),
        ("http://user@proxy.example:3128", None),
        ("https://proxy.example:3128", None),
        ("socks5://proxy.example:1080", None),
        ("proxy.example:3128", None),
        ("http://proxy.example/path", None),
        ("http://proxy.example:0", None),
    ] {
        check::<ProxyUrl>(text, expected);
    }
}
