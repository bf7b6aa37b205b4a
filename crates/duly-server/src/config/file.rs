//! Reads the TOML file: every key with its line, whatever is wrong with its line.
//!
//! Nothing in a file is passed over: sections and keys that do not exist are refused with the name
//! that was probably meant. Of a text that is not TOML nothing is set.

use std::{fs, path::Path};

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    Error, Origin,
    effective::Gathered,
    keys::{KEYS, Key, find, renamed, sections},
    value::Written,
};
use crate::near::nearest;

/// Sets what the file says, from its first line on.
pub(super) fn read(path: &Path, gathered: &mut Gathered) {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => {
            let reason = error.to_string();
            gathered.errors.push(Error::Unreadable { path: path.to_owned(), reason });
            return;
        }
    };
    let lines = Lines { path, text: &text };
    let (table, malformed) = DeTable::parse_recoverable(&text);
    if !malformed.is_empty() {
        gathered.errors.extend(lines.malformed(&malformed));
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
            Ok((key, written, origin)) => gathered.set(key, &written, origin),
            Err(error) => gathered.errors.push(error),
        }
    }
}

/// Where things stand in the file.
struct Lines<'a> {
    path: &'a Path,
    text: &'a str,
}

impl Lines<'_> {
    fn at(&self, offset: usize) -> usize {
        self.text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
    }

    fn origin(&self, offset: usize) -> Origin {
        Origin::File { path: self.path.to_owned(), line: self.at(offset) }
    }

    /// One complaint a line: what the parser says of the rest of it follows from the first.
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

/// The parser's reason. Of a value that is none it does not say what is mostly wrong with it.
fn reason(message: &str) -> String {
    let hint = if message.starts_with("invalid") || message.contains("quote") {
        " (texts stand in quotes, lists in brackets)"
    } else {
        ""
    };
    format!("{message}{hint}")
}

/// The entries of a section.
fn section<'a>(name: &str, value: DeValue<'a>, origin: Origin) -> Result<DeTable<'a>, Error> {
    let name = name.to_owned();
    let is_known = sections().contains(&name.as_str());
    match value {
        DeValue::Table(entries) if is_known => Ok(entries),
        DeValue::Table(_) => {
            let near = nearest(&name, sections().into_iter()).map(in_brackets);
            let known = format!("the sections are {}", all_sections());
            Err(Error::UnknownSection { name, origin, near, known })
        }
        other if is_known => {
            let seen = with_article(other.type_str());
            Err(Error::NotASection { name, origin, seen })
        }
        _ => {
            let near = in_any_section(&name)
                .map(|key| format!("{}, below {}", key.name, in_brackets(key.section())));
            let known = format!("every key stands below its section: {}", all_sections());
            Err(Error::UnknownKey { key: name, origin, near, known })
        }
    }
}

/// A key of a section that exists, with what it is set to.
fn entry(
    section: &str,
    name: &str,
    value: &DeValue<'_>,
    origin: Origin,
) -> Result<(&'static Key, Written, Origin), Error> {
    let key = format!("{section}.{name}");
    if let Some(key) = find(&key) {
        return Ok((key, written(value), origin));
    }
    let here = || KEYS.iter().filter(|key| key.section() == section);
    let near = renamed(&key)
        .map(|key| key.name.to_owned())
        .or_else(|| {
            let near = nearest(name, here().map(Key::bare_name))?;
            Some(format!("{section}.{near}"))
        })
        .or_else(|| in_any_section(name).map(|key| key.name.to_owned()));
    let names: Vec<&str> = here().map(|key| key.name).collect();
    let known = format!("[{section}] has {}", names.join(", "));
    Err(Error::UnknownKey { key, origin, near, known })
}

/// The key with this name, or nearly so, whatever its section.
fn in_any_section(name: &str) -> Option<&'static Key> {
    let near = nearest(name, KEYS.iter().map(Key::bare_name))?;
    KEYS.iter().find(|key| key.bare_name() == near)
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

fn written(value: &DeValue<'_>) -> Written {
    match value {
        DeValue::String(text) => Written::Text(text.to_string()),
        DeValue::Boolean(flag) => Written::Flag(*flag),
        DeValue::Integer(number) => {
            let parsed = i64::from_str_radix(number.as_str(), number.radix());
            let too_large = || Written::Other("an integer that is too large".to_owned());
            parsed.map_or_else(|_| too_large(), Written::Integer)
        }
        DeValue::Array(items) => {
            let texts = items.iter().map(|item: &Spanned<DeValue<'_>>| match item.get_ref() {
                DeValue::String(text) => Some(text.to_string()),
                _ => None,
            });
            texts.collect::<Option<_>>().map_or_else(
                || Written::Other("an array of other things than texts".to_owned()),
                Written::List,
            )
        }
        other => Written::Other(with_article(other.type_str())),
    }
}
