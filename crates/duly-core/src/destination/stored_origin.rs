//! Finds the origin of a stored URL, without parsing the URL if its text shows the origin.
//!
//! A URL is stored in its normalised form. If its host is a plain name, as nearly all are, the origin is
//! the text up to the path. Comparing that text is twenty times cheaper than parsing. Every other URL is
//! parsed, so that the result is always that of [`HttpDestination::origin`].

use std::borrow::Cow;

use crate::Invalid;

use super::HttpDestination;

/// Returns the origin of a stored URL.
pub(super) fn origin_of(url: &str) -> Result<Cow<'_, str>, Invalid> {
    match plain_origin(url) {
        Some(origin) => Ok(Cow::Borrowed(origin)),
        None => Ok(Cow::Owned(HttpDestination::from_stored(url)?.origin())),
    }
}

/// Returns the origin of a URL whose host is a name in plain letters. `None` means only that the URL
/// must be parsed.
fn plain_origin(url: &str) -> Option<&str> {
    let (host_at, port_default) = if url.starts_with("https://") {
        ("https://".len(), 443)
    } else if url.starts_with("http://") {
        ("http://".len(), 80)
    } else {
        return None;
    };
    let rest = &url[host_at..];
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (host, port) = match rest[..end].split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (&rest[..end], None),
    };
    (is_plain_name(host) && port.is_none_or(|port| is_plain_port(port, port_default)))
        .then(|| &url[..host_at + end])
}

/// Returns `true` if parsing does not change the host.
fn is_plain_name(host: &str) -> bool {
    let is_plain = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.');
    let last = host.rsplit('.').next().unwrap_or("");
    // A last label that begins with a digit may be part of an IP address, and `--` may mark a name in
    // another script.
    host.bytes().all(is_plain)
        && last.starts_with(|first: char| first.is_ascii_lowercase())
        && !host.contains("--")
}

/// Returns `true` if parsing does not change the port.
fn is_plain_port(port: &str, port_default: u16) -> bool {
    port.starts_with(|first: char| matches!(first, '1'..='9'))
        && port.parse::<u16>().is_ok_and(|number| number != port_default)
}

#[cfg(test)]
mod tests;
