//! Reads the environment: which variables set which keys, and which only look as if they did.
//!
//! Of a variable that begins with `DULY_` there are three kinds. With `__` in it, it is meant for
//! this configuration, and unknown ones are refused. Without, it is somebody else's (`DULY_SERVER`
//! is the command line's), unless a second `_` would make a key of it: that is a slip.

use super::{
    Error, Origin,
    effective::Gathered,
    keys::{KEYS, Key, renamed},
    value::Written,
};
use crate::near::nearest;

const PREFIX: &str = "DULY_";
/// What separates section and key.
const MARK: &str = "__";

/// Sets what the variables say.
pub(super) fn read(variables: &[(String, String)], gathered: &mut Gathered) {
    // The system has them in no order that a person would know.
    let mut variables: Vec<_> = variables.iter().collect();
    variables.sort_unstable();
    for (name, value) in variables {
        let origin = Origin::Variable(name.clone());
        match judge(name) {
            Meant::NotForUs => {}
            Meant::Key(key) if value.contains(char::REPLACEMENT_CHARACTER) => {
                // Made of bytes that are no text; a path would be another one.
                let seen = Written::Text(value.clone()).to_string();
                gathered.refuse(key, origin, seen, "text in UTF-8".to_owned());
            }
            Meant::Key(key) => gathered.set(key, &Written::Text(value.clone()), origin),
            Meant::Unknown(near) => gathered.errors.push(Error::UnknownKey {
                key: name.clone(),
                origin,
                near,
                known: "`duly config example` names every variable".to_owned(),
            }),
        }
    }
}

enum Meant {
    NotForUs,
    Key(&'static Key),
    Unknown(Option<String>),
}

fn judge(name: &str) -> Meant {
    let upper = name.to_uppercase();
    if !upper.starts_with(PREFIX) {
        return Meant::NotForUs;
    }
    let variables: Vec<String> = KEYS.iter().map(Key::variable).collect();
    if let Some(place) = variables.iter().position(|variable| variable == name) {
        return Meant::Key(&KEYS[place]);
    }
    let joined = |name: &str| name.replace(MARK, "_");
    if upper.contains(MARK) {
        let key = name[PREFIX.len()..].replace(MARK, ".").to_lowercase();
        let near = renamed(&key)
            .map(Key::variable)
            .or_else(|| nearest(name, variables.iter().map(String::as_str)).map(str::to_owned));
        Meant::Unknown(near)
    } else if let Some(slip) = variables.into_iter().find(|known| joined(known) == upper) {
        Meant::Unknown(Some(slip))
    } else {
        Meant::NotForUs
    }
}
