//! Reads the time limit of a caller: the header `grpc-timeout`.

use std::time::Duration;

use duly_core::Invalid;
use http::HeaderMap;

/// The allowed form of the header.
const ALLOWED: &str = "1 to 8 digits and one of the units H, M, S, m, u, n";

/// Returns the caller's time limit, if it has one.
pub(super) fn caller_limit(headers: &HeaderMap) -> Result<Option<Duration>, Invalid> {
    let Some(value) = headers.get("grpc-timeout") else { return Ok(None) };
    let text = value.to_str().unwrap_or("unreadable");
    parse(text).map(Some).ok_or_else(|| Invalid::new("grpc-timeout", text, ALLOWED))
}

fn parse(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if !(1..=8).contains(&digits.len()) || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let count: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(count * 3_600),
        "M" => Duration::from_secs(count * 60),
        "S" => Duration::from_secs(count),
        "m" => Duration::from_millis(count),
        "u" => Duration::from_micros(count),
        "n" => Duration::from_nanos(count),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_of_the_protocol_is_known_and_nothing_else() {
        for (text, expected) in [
            ("1H", Duration::from_secs(3_600)),
            ("2M", Duration::from_secs(120)),
            ("99999999S", Duration::from_secs(99_999_999)),
            ("5m", Duration::from_millis(5)),
            ("6u", Duration::from_micros(6)),
            ("7n", Duration::from_nanos(7)),
        ] {
            assert_eq!(parse(text), Some(expected), "{text}");
        }
        for text in ["", "S", "1", "1s", "123456789S", "-1S", "1.5S", " 1S", "1S ", "1é"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
