//! W3C trace context as text.

/// The allowed form, for messages.
pub const ALLOWED: &str = "a W3C traceparent: 00-TRACE-PARENT-FLAGS in lower-case hex";

/// Returns `true` for a valid `traceparent`: `00-` trace id `-` parent id `-` flags.
pub fn is_proper(text: &str) -> bool {
    let lengths = [2, 32, 16, 2];
    let parts: Vec<&str> = text.split('-').collect();
    let is_shaped = parts.len() == lengths.len()
        && parts.iter().zip(lengths).all(|(part, length)| {
            part.len() == length
                && part.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        });
    let is_set = |part: &str| part.bytes().any(|b| b != b'0');
    is_shaped && parts[0] != "ff" && is_set(parts[1]) && is_set(parts[2])
}
