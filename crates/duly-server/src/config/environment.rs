//! Reads the environment: variables that set keys, and variables that only look as if they did.
//!
//! Names that begin with `DULY_` are of three kinds:
//!
//! 1. A name with `__` is meant for this configuration; an unknown one is refused.
//! 2. A name without `__` belongs to another program (`DULY_SERVER` is the command line's).
//! 3. A name that would be a key with a second `_` is a mistake, and is refused.

use duly_core::similar_name::most_similar;

use super::{
    Error, Layers, Origin,
    keys::{KEYS, Key, renamed, shown},
};

const PREFIX: &str = "DULY_";
/// The mark between section and key.
const MARK: &str = "__";

/// Sets the values of the variables.
pub(super) fn read(variables: &[(String, String)], layers: &mut Layers) {
    // The order of the system has no meaning for a person.
    let mut variables: Vec<_> = variables.iter().collect();
    variables.sort_unstable();
    for (name, value) in variables {
        let origin = Origin::Variable(name.clone());
        match meaning(name) {
            VariableMeaning::Foreign => {}
            VariableMeaning::Key(key) if value.contains(char::REPLACEMENT_CHARACTER) => {
                // The bytes are not UTF-8. A replaced character in a path would name another path.
                let seen = shown(&value.as_str().into());
                layers.refuse(&key.name, origin, seen, "text in UTF-8".to_owned());
            }
            VariableMeaning::Key(key) => layers.set(key, Ok(value.as_str().into()), origin),
            VariableMeaning::Unknown(similar) => layers.errors.push(Error::UnknownKey {
                key: name.clone(),
                origin,
                similar,
                known: "`duly config example` names every variable".to_owned(),
            }),
        }
    }
}

/// The meaning of the name of a variable.
enum VariableMeaning {
    Foreign,
    Key(&'static Key),
    Unknown(Option<String>),
}

fn meaning(name: &str) -> VariableMeaning {
    let upper = name.to_uppercase();
    if !upper.starts_with(PREFIX) {
        return VariableMeaning::Foreign;
    }
    if let Some(key) = KEYS.iter().find(|key| key.variable() == name) {
        return VariableMeaning::Key(key);
    }
    let variables: Vec<String> = KEYS.iter().map(Key::variable).collect();
    if upper.contains(MARK) {
        let key = name[PREFIX.len()..].replace(MARK, ".").to_lowercase();
        let similar = renamed(&key).map(Key::variable).or_else(|| {
            most_similar(name, variables.iter().map(String::as_str)).map(str::to_owned)
        });
        VariableMeaning::Unknown(similar)
    } else {
        let meant = variables.into_iter().find(|known| known.replace(MARK, "_") == upper);
        meant.map_or(VariableMeaning::Foreign, |meant| VariableMeaning::Unknown(Some(meant)))
    }
}
