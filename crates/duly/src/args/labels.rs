//! Headers and tags, as `schedule` and `reschedule` take them.

use super::{
    fields::{RequestFields, pairs},
    values,
};

/// What travels with a timer.
#[derive(clap::Args)]
pub(crate) struct Labels {
    /// A header of the delivery, as name:value; repeat it for more
    #[arg(long = "header", value_name = "NAME:VALUE", value_parser = values::header)]
    headers: Vec<(String, String)>,
    /// A tag to find the timer by; repeat it for more
    #[arg(long = "tag", value_name = "TAG")]
    tags: Vec<String>,
}

impl Labels {
    /// Sets headers and tags, where any are given.
    pub(crate) fn set(&self, fields: &mut RequestFields) {
        fields.set_some("headers", (!self.headers.is_empty()).then(|| pairs(&self.headers)));
        fields.set_some("tags", (!self.tags.is_empty()).then_some(&self.tags));
    }
}
