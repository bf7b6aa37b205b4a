//! Values that say who may call: names of hosts, origins of web pages. What could never be equal to
//! what a request says is none: a name with a port, an origin without a scheme.

use url::{Host, Url};

/// Reads the name or address of a host, and gives it as a request has it, without port and brackets.
pub(super) fn host(text: &str) -> Option<String> {
    let address = text.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = address.parse::<std::net::IpAddr>() {
        return Some(address.to_string());
    }
    let Host::Domain(name) = Host::parse(text).ok()? else {
        return None;
    };
    // Nothing else stands in a name; a pattern such as *.example.com is none.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    name.chars().all(is_plain).then_some(name)
}

/// Reads the origin of a web page, and gives it as browsers write it: in lower case, without the
/// scheme's own port.
pub(super) fn origin(text: &str) -> Option<String> {
    let url = Url::parse(text).ok()?;
    let (scheme, rest) = text.split_once("://")?;
    // Behind host and port there is nothing, not even the slash that a page's address has.
    let is_bare = !rest.contains(['/', '?', '#', '@', '\\']);
    if !is_bare || !scheme.eq_ignore_ascii_case(url.scheme()) || url.scheme() == "file" {
        return None;
    }
    match url.host()? {
        Host::Domain(name) => drop(host(name)?),
        Host::Ipv4(_) | Host::Ipv6(_) => {}
    }
    let port = url.port().map_or_else(String::new, |port| format!(":{port}"));
    Some(format!("{}://{}{port}", url.scheme(), url.host_str()?.to_ascii_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

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
            ("a b", None),
            ("2130706433", None),
        ] {
            assert_eq!(host(text).as_deref(), expected, "{text:?}");
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
            ("https://", None),
            ("file:///index.html", None),
            ("file://host", None),
            ("null", None),
            ("*", None),
        ] {
            assert_eq!(origin(text).as_deref(), expected, "{text:?}");
        }
    }
}
