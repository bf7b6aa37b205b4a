//! Parses JSON and explains its errors.
//!
//! The fast path is a plain parse. Only if it fails, the text is parsed again with the path recorded.
//! The parser's message then becomes an [`Invalid`]: the path of the field, the value there, the allowed
//! values. Every body, and every item of a batch, is parsed here.

mod nulls;
mod objects;
mod unknown;

pub use self::nulls::Nulls;

use duly_core::{Invalid, invalid::shorten};
use serde::Deserialize;
use serde_json::{Value, error::Category};
use serde_path_to_error::{Path, Segment};

use self::objects::Objects;

/// Field name of the body as a whole, in errors.
pub const BODY: &str = "body";

/// Fields at and below which no refused value is shown.
const SECRET_FIELDS: [&str; 2] = ["headers", "signing_secrets"];

/// Parses `text` as one JSON value of type `T`.
///
/// # Errors
/// An [`Invalid`] whose field is the path inside the text; empty for the text as a whole.
pub fn parse<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Result<T, Invalid> {
    let mut reader = serde_json::Deserializer::from_slice(text);
    T::deserialize(Objects(&mut reader))
        .and_then(|value| reader.end().map(|()| value))
        .map_err(|error| explain::<T>(text, &error))
}

/// Parses a request's body like [`parse`]; an error of the whole body names `body`.
///
/// # Errors
/// The errors of [`parse`].
pub fn parse_body<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Result<T, Invalid> {
    if text.iter().all(u8::is_ascii_whitespace) {
        return Err(Invalid::plain(BODY, "nothing", "a JSON object"));
    }
    parse(text).map_err(|mut invalid| {
        if invalid.field.is_empty() {
            BODY.clone_into(&mut invalid.field);
        }
        invalid
    })
}

fn explain<'a, T: Deserialize<'a>>(text: &'a [u8], plain: &serde_json::Error) -> Invalid {
    let mut reader = serde_json::Deserializer::from_slice(text);
    match serde_path_to_error::deserialize::<_, T>(Objects(&mut reader)) {
        Err(error) if error.inner().classify() == Category::Data => {
            let message = error.inner().to_string();
            shape(without_position(&message), error.path(), text)
        }
        Err(error) => malformed(text, error.inner()),
        // The value itself is valid; the text after it is the fault.
        Ok(_) => malformed(text, plain),
    }
}

fn malformed(text: &[u8], error: &serde_json::Error) -> Invalid {
    match not_utf8(text) {
        Some(seen) => Invalid::plain("", seen, "JSON in UTF-8 without a byte order mark"),
        None => Invalid::plain("", format!("a syntax error: {error}"), "well-formed JSON"),
    }
}

/// Names what a text has in place of UTF-8 without a byte order mark.
fn not_utf8(text: &[u8]) -> Option<String> {
    match text {
        [0xef, 0xbb, 0xbf, ..] => Some("a byte order mark (EF BB BF) at the beginning".to_owned()),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
            Some("UTF-16 (a byte order mark of it at the beginning)".to_owned())
        }
        [0, _, ..] | [_, 0, ..] => {
            Some("UTF-16 or UTF-32 (a zero byte at the beginning)".to_owned())
        }
        _ => std::str::from_utf8(text).err().map(|error| {
            let at = error.valid_up_to();
            let byte = text.get(at).copied().unwrap_or_default();
            format!("another encoding (the byte {byte:02X} at offset {at})")
        }),
    }
}

/// Returns an error of serde as one of the contract.
fn shape(message: &str, path: &Path, text: &[u8]) -> Invalid {
    let field = dotted(path);
    if let Some(rest) = message.strip_prefix("unknown field `") {
        let (name, known) = rest.split_once('`').unwrap_or((rest, ""));
        return unknown::field(ending_in(field, name), name, known);
    }
    if let Some(name) = quoted(message, "missing field `") {
        return Invalid::unseen(ending_in(field, name), "given");
    }
    if let Some(name) = quoted(message, "duplicate field `") {
        return Invalid::unseen(ending_in(field, name), "given only once");
    }
    let allowed = match message.rsplit_once(", expected ") {
        Some((_, "a sequence")) => "a JSON array".to_owned(),
        Some((_, "u16" | "u32" | "u64")) => "an integer from 0".to_owned(),
        Some((_, "f64")) => "a number".to_owned(),
        Some((_, expected)) => plain_names(expected),
        None => message.to_owned(),
    };
    Invalid { seen: seen_at(path, text), ..Invalid::unseen(field, allowed) }
}

fn quoted<'m>(message: &'m str, prefix: &str) -> Option<&'m str> {
    message.strip_prefix(prefix)?.split('`').next()
}

fn plain_names(text: &str) -> String {
    text.replace('`', "")
}

/// Returns the path with `name` as its last part, which it may have already.
fn ending_in(path: String, name: &str) -> String {
    if path == name || path.ends_with(&format!(".{name}")) {
        path
    } else {
        Invalid::unseen(name, "").within(&path).field
    }
}

fn without_position(message: &str) -> &str {
    message.rfind(" at line ").map_or(message, |end| &message[..end])
}

fn dotted(path: &Path) -> String {
    let mut out = String::new();
    for segment in path.iter() {
        match segment {
            Segment::Seq { index } => out.push_str(&format!("[{index}]")),
            Segment::Map { key } => {
                if !out.is_empty() {
                    out.push('.');
                }
                out.push_str(key);
            }
            Segment::Enum { .. } | Segment::Unknown => {}
        }
    }
    out
}

/// Returns the value at the path, as shortened JSON text; `None` if it may be a secret.
fn seen_at(path: &Path, text: &[u8]) -> Option<String> {
    let is_secret = |segment: &Segment| matches!(segment, Segment::Map { key } if SECRET_FIELDS.contains(&key.as_str()));
    if path.iter().any(is_secret) {
        return None;
    }
    let whole: Value = serde_json::from_slice(text).ok()?;
    let mut at = &whole;
    for segment in path.iter() {
        at = match segment {
            Segment::Seq { index } => at.get(index)?,
            Segment::Map { key } => at.get(key)?,
            Segment::Enum { .. } | Segment::Unknown => at,
        };
    }
    shown(at)
}

/// Returns a JSON value for an error: text quoted, everything else bare, both shortened. Values inside
/// an array or object are not shown: they may be secrets, and so may a URL with a password in the wrong
/// place.
fn shown(value: &Value) -> Option<String> {
    Some(match value {
        Value::String(text) if text.contains("://") && text.contains('@') => return None,
        Value::String(text) => shorten(text),
        Value::Array(items) if !items.is_empty() => "[…]".to_owned(),
        Value::Object(fields) if !fields.is_empty() => "{…}".to_owned(),
        other => {
            let quoted = shorten(&other.to_string());
            quoted.trim_start_matches('"').strip_suffix('"').unwrap_or(&quoted).to_owned()
        }
    })
}

#[cfg(test)]
mod tests;
