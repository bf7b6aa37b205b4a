//! Filters and pages of a list of timers.

use duly_api::{State, View};
use duly_core::Timestamp;

use super::values;

/// Conditions; a timer must meet all of them.
#[derive(clap::Args)]
pub(crate) struct Conditions {
    /// Due at or after this time
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    pub(crate) due_from: Option<Timestamp>,
    /// Due before this time
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    pub(crate) due_to: Option<Timestamp>,
    /// The id begins with this text
    #[arg(long, value_name = "TEXT")]
    pub(crate) id_prefix: Option<String>,
    /// The timer has this tag
    #[arg(long)]
    pub(crate) tag: Option<String>,
}

/// A selection of timers of a namespace, and a page of it.
#[derive(clap::Args)]
pub(crate) struct Filter {
    #[command(flatten)]
    conditions: Conditions,
    /// Most timers per page
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = values::within::<1, 1000>)]
    limit: u16,
    /// Continue at this cursor, which the previous page printed
    #[arg(long)]
    cursor: Option<String>,
    /// All pages, one after the other; with --cursor from there on
    #[arg(long)]
    pub(crate) all: bool,
}

impl Filter {
    /// Returns the cursor of the first page.
    pub(crate) fn cursor(&self) -> Option<String> {
        self.cursor.clone()
    }

    /// Returns the query parameters of a page.
    pub(crate) fn query(
        &self,
        state: Option<State>,
        cursor: Option<&str>,
        view: Option<View>,
    ) -> Vec<(&'static str, String)> {
        let Conditions { due_from, due_to, id_prefix, tag } = &self.conditions;
        let parameters = [
            ("state", state.map(|state| state.to_string())),
            ("due_from", due_from.map(|from| from.to_string())),
            ("due_to", due_to.map(|to| to.to_string())),
            ("id_prefix", id_prefix.clone()),
            ("tag", tag.clone()),
            ("limit", Some(self.limit.to_string())),
            ("cursor", cursor.map(str::to_owned)),
            ("view", view.map(|view| view.to_string())),
        ];
        parameters.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}
