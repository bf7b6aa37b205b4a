//! The layers of a configuration, put over each other one key at a time, so that one wrong value does
//! not hide another.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Config, Error, Errors, Origin, keys::Key};

/// Accepted values and errors.
#[derive(Default)]
pub(super) struct Layers {
    /// Accepted values by section and field; a later layer replaces the value of an earlier one.
    values: Map<String, Value>,
    origins: BTreeMap<&'static str, Origin>,
    /// Errors in the order in which they were found.
    pub(super) errors: Vec<Error>,
    refused: BTreeSet<&'static str>,
}

impl Layers {
    /// Puts a value over that of an earlier layer, if it is allowed. An `Err` stands for a value that
    /// no key can have.
    pub(super) fn set(
        &mut self,
        key: &'static Key,
        written: Result<Value, String>,
        origin: Origin,
    ) {
        match written.and_then(|value| key.check(&value)) {
            Ok(value) => {
                let section = self.values.entry(&key.section).or_insert_with(|| Map::new().into());
                section[&key.field] = value;
                self.origins.insert(&key.name, origin);
            }
            Err(seen) => self.refuse(&key.name, origin, seen, key.allowed.clone()),
        }
    }

    /// Notes that the value of a key is not allowed.
    pub(super) fn refuse(
        &mut self,
        key: &'static str,
        origin: Origin,
        seen: String,
        allowed: String,
    ) {
        self.refused.insert(key);
        self.errors.push(Error::Value { key, origin, seen, allowed });
    }

    /// Returns `true` if some value of a key was not allowed.
    pub(super) fn is_refused(&self, key: &str) -> bool {
        self.refused.contains(key)
    }

    /// Returns the configuration of the accepted values over the defaults.
    pub(super) fn config(&self) -> Config {
        let config = Config::deserialize(Value::Object(self.values.clone()));
        let config = config.expect("each value was accepted on its own");
        Config { origins: self.origins.clone(), ..config }
    }

    /// Returns the errors, if there are any.
    pub(super) fn finish(self) -> Result<(), Errors> {
        if self.errors.is_empty() { Ok(()) } else { Err(Errors(self.errors)) }
    }
}
