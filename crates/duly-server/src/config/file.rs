//! Reads the TOML file into (key, value, line), without judging values.

use std::path::Path;

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    Error, Origin,
    keys::{KEYS, Key, find},
    value::Written,
};

/// The keys that the text sets.
pub(super) fn read(path: &Path, text: &str) -> Result<Vec<(&'static Key, Written, Origin)>, Error> {
    let line_at = |offset: usize| text[..offset.min(text.len())].matches('\n').count() + 1;
    let table = DeTable::parse(text).map_err(|error| Error::Malformed {
        path: path.to_owned(),
        line: line_at(error.span().map_or(0, |span| span.start)),
        reason: error.message().to_owned(),
    })?;
    let origin = |offset: usize| Origin::File { path: path.to_owned(), line: line_at(offset) };
    let mut found = Vec::new();
    for (section, value) in table.into_inner() {
        let section_origin = origin(section.span().start);
        let section = section.into_inner();
        let is_known = KEYS.iter().any(|key| key.section() == section);
        let DeValue::Table(entries) = value.into_inner() else {
            return Err(unknown(section.into_owned(), section_origin, None));
        };
        if !is_known {
            return Err(unknown(section.into_owned(), section_origin, None));
        }
        for (name, value) in entries {
            let origin = origin(name.span().start);
            let full = format!("{section}.{}", name.get_ref());
            let Some(key) = find(&full) else {
                return Err(unknown(full, origin, Some(&section)));
            };
            found.push((key, written(&value), origin));
        }
    }
    Ok(found)
}

fn unknown(key: String, origin: Origin, section: Option<&str>) -> Error {
    let known = match section {
        Some(section) => {
            let keys = KEYS.iter().filter(|key| key.section() == section);
            let names: Vec<&str> = keys.map(|key| key.name).collect();
            format!("[{section}] has {}", names.join(", "))
        }
        None => {
            let mut sections: Vec<&str> = KEYS.iter().map(Key::section).collect();
            sections.dedup();
            format!("the sections are {}", sections.join(", "))
        }
    };
    Error::UnknownKey { key, origin, known }
}

fn written(value: &Spanned<DeValue<'_>>) -> Written {
    match value.get_ref() {
        DeValue::String(text) => Written::Text(text.to_string()),
        DeValue::Boolean(flag) => Written::Flag(*flag),
        DeValue::Integer(number) => {
            let parsed = i64::from_str_radix(number.as_str(), number.radix());
            parsed.map_or_else(|_| Written::Other("an integer".to_owned()), Written::Integer)
        }
        DeValue::Array(items) => {
            let texts = items.iter().map(|item| match item.get_ref() {
                DeValue::String(text) => Some(text.to_string()),
                _ => None,
            });
            texts.collect::<Option<_>>().map_or_else(
                || Written::Other("an array of other things than texts".to_owned()),
                Written::List,
            )
        }
        other => Written::Other(format!("a {}", other.type_str())),
    }
}
