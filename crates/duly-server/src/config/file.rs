//! Reads the TOML file: every key with its line.
//!
//! Unknown sections and keys are refused with the most similar known name. A text that is not TOML sets
//! nothing.

use std::path::Path;

use duly_core::similar_name::most_similar;
use duly_tls::files;
use serde_json::Value;
use toml::de::{DeTable, DeValue};

use super::{
    Error, Layers, Origin,
    keys::{KEYS, Key, find, renamed, sections},
};

/// Sets the values of the file, from its first line on.
pub(super) fn read(path: &Path, layers: &mut Layers) {
    let read = || files::read_once(path, files::FILE_BYTES_MAX).and_then(files::text);
    // The file decides who is admitted.
    let text = match files::check_trusted(path).and_then(|()| read()) {
        Ok(text) => text,
        Err(error) => {
            let reason = error.to_string();
            layers.errors.push(Error::Unreadable { path: path.to_owned(), reason });
            return;
        }
    };
    let lines = LineIndex { path, text: &text };
    let (table, malformed) = DeTable::parse_recoverable(&text);
    if !malformed.is_empty() {
        layers.errors.extend(lines.malformed(&malformed));
        return;
    }
    let mut found = Vec::new();
    for (name, value) in table.into_inner() {
        let at = name.span().start;
        match section(name.get_ref(), value.into_inner(), lines.origin(at)) {
            Ok(entries) => found.extend(entries.into_iter().map(|(key, value)| {
                let at = key.span().start;
                (at, entry(name.get_ref(), key.get_ref(), value.get_ref(), lines.origin(at)))
            })),
            Err(error) => found.push((at, Err(error))),
        }
    }
    // The table is sorted by name; a person reads from the top.
    found.sort_by_key(|(at, _)| *at);
    for (_, found) in found {
        match found {
            Ok((key, file_value, origin)) => layers.set(key, file_value, origin),
            Err(error) => layers.errors.push(error),
        }
    }
}

/// Lines of the file by offset.
struct LineIndex<'a> {
    path: &'a Path,
    text: &'a str,
}

impl LineIndex<'_> {
    fn at(&self, offset: usize) -> usize {
        self.text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
    }

    fn origin(&self, offset: usize) -> Origin {
        Origin::File { path: self.path.to_owned(), line: self.at(offset) }
    }

    /// Returns the first complaint of each line: the others follow from it.
    fn malformed(&self, errors: &[toml::de::Error]) -> Vec<Error> {
        let mut seen: Vec<(usize, String)> = Vec::new();
        for error in errors {
            let line = self.at(error.span().map_or(0, |span| span.start));
            if !seen.iter().any(|(known, _)| *known == line) {
                seen.push((line, reason(error.message())));
            }
        }
        seen.sort_by_key(|(line, _)| *line);
        let malformed =
            |(line, reason)| Error::Malformed { path: self.path.to_owned(), line, reason };
        seen.into_iter().map(malformed).collect()
    }
}

/// Returns the reason of the parser, with the likely mistake, which it does not name.
fn reason(message: &str) -> String {
    let hint = if message.starts_with("invalid") || message.contains("quote") {
        " (write texts in quotes, lists in brackets)"
    } else {
        ""
    };
    format!("{message}{hint}")
}

/// Returns the entries of a section.
fn section<'a>(name: &str, value: DeValue<'a>, origin: Origin) -> Result<DeTable<'a>, Error> {
    let name = name.to_owned();
    let is_known = sections().contains(&name.as_str());
    match value {
        DeValue::Table(entries) if is_known => Ok(entries),
        DeValue::Table(_) => {
            let similar = most_similar(&name, sections().into_iter()).map(in_brackets);
            let known = format!("the sections are {}", all_sections());
            Err(Error::UnknownSection { name, origin, similar, known })
        }
        other if is_known => {
            let seen = with_article(other.type_str());
            Err(Error::NotASection { name, origin, seen })
        }
        _ => {
            let similar = in_any_section(&name)
                .map(|key| format!("{}, below {}", key.name, in_brackets(&key.section)));
            let known = format!("every key belongs below its section: {}", all_sections());
            Err(Error::UnknownKey { key: name, origin, similar, known })
        }
    }
}

/// Returns a key of a section that exists, with its value.
fn entry(
    section: &str,
    name: &str,
    value: &DeValue<'_>,
    origin: Origin,
) -> Result<(&'static Key, Result<Value, String>, Origin), Error> {
    let key = format!("{section}.{name}");
    if let Some(key) = find(&key) {
        return Ok((key, file_value(value), origin));
    }
    let in_section = || KEYS.iter().filter(|key| key.section == section);
    let similar = renamed(&key)
        .map(|key| key.name.clone())
        .or_else(|| {
            let similar = most_similar(name, in_section().map(|key| key.field.as_str()))?;
            Some(format!("{section}.{similar}"))
        })
        .or_else(|| in_any_section(name).map(|key| key.name.clone()));
    let names: Vec<&str> = in_section().map(|key| key.name.as_str()).collect();
    let known = format!("[{section}] has {}", names.join(", "));
    Err(Error::UnknownKey { key, origin, similar, known })
}

/// Returns the key with this name, or nearly this name, of any section.
fn in_any_section(name: &str) -> Option<&'static Key> {
    let similar = most_similar(name, KEYS.iter().map(|key| key.field.as_str()))?;
    KEYS.iter().find(|key| key.field == similar)
}

fn in_brackets(section: &str) -> String {
    format!("[{section}]")
}

fn all_sections() -> String {
    sections().into_iter().map(in_brackets).collect::<Vec<_>>().join(", ")
}

fn with_article(kind: &str) -> String {
    let article = if kind.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    format!("{article} {kind}")
}

/// Returns a value of the file.
///
/// # Errors
/// A description of a value that no key can have.
fn file_value(value: &DeValue<'_>) -> Result<Value, String> {
    match value {
        DeValue::String(text) => Ok(text.as_ref().into()),
        DeValue::Boolean(flag) => Ok((*flag).into()),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map(Value::from)
            .map_err(|_| "an integer that is too large".to_owned()),
        DeValue::Array(items) => {
            let texts = items.iter().map(|item| item.get_ref().as_str().map(Value::from));
            let texts: Option<Value> = texts.collect::<Option<Vec<_>>>().map(Value::Array);
            texts.ok_or_else(|| "an array of values that are not texts".to_owned())
        }
        other => Err(with_article(other.type_str())),
    }
}
