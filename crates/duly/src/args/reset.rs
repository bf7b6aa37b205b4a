//! A change that resets fields: a request has those fields as `null`.

use std::collections::BTreeMap;

use serde::Serialize;

/// A message of the model, and the names of fields that are sent as `null`.
#[derive(Serialize)]
pub(crate) struct WithNulls<T> {
    #[serde(flatten)]
    message: T,
    #[serde(flatten)]
    nulls: BTreeMap<&'static str, ()>,
}

impl<T> WithNulls<T> {
    /// Adds the names of `null` fields. `message` must not have these fields.
    pub(crate) fn new(message: T, names: impl IntoIterator<Item = &'static str>) -> Self {
        Self { message, nulls: names.into_iter().map(|name| (name, ())).collect() }
    }
}
