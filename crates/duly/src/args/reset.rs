//! A change that resets fields: a request gives those as `null`.

use std::collections::BTreeMap;

use serde::Serialize;

/// A message of the model, and the fields that are `null` beside it.
#[derive(Serialize)]
pub(crate) struct WithNulls<T> {
    #[serde(flatten)]
    message: T,
    #[serde(flatten)]
    nulls: BTreeMap<&'static str, ()>,
}

impl<T> WithNulls<T> {
    /// Adds the names of fields that `message` does not have.
    pub(crate) fn new(message: T, names: impl IntoIterator<Item = &'static str>) -> Self {
        Self { message, nulls: names.into_iter().map(|name| (name, ())).collect() }
    }
}
