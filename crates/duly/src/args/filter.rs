//! Which timers: the filters of a list, and paging through it.

use duly_core::Timestamp;

use super::values;

/// Which timers of a namespace, and which page of them.
#[derive(clap::Args)]
pub(crate) struct Filter {
    /// Due at or after this time
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    due_from: Option<Timestamp>,
    /// Due before this time
    #[arg(long, value_name = "TIME", value_parser = values::time)]
    due_to: Option<Timestamp>,
    /// The id begins with this
    #[arg(long, value_name = "TEXT")]
    id_prefix: Option<String>,
    /// It has this tag
    #[arg(long)]
    tag: Option<String>,
    /// At most this many on a page
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = values::within::<1, 1000>)]
    limit: u16,
    /// Go on where the page before ended
    #[arg(long)]
    cursor: Option<String>,
    /// Every page, one after the other
    #[arg(long, conflicts_with = "cursor")]
    pub(crate) all: bool,
}

impl Filter {
    /// The first page to ask for.
    pub(crate) fn cursor(&self) -> Option<String> {
        self.cursor.clone()
    }

    /// The query of one page.
    pub(crate) fn query(
        &self,
        state: Option<&str>,
        cursor: Option<String>,
    ) -> Vec<(&'static str, String)> {
        let time = |time: Option<Timestamp>| time.map(|time| time.to_string());
        [
            ("state", state.map(str::to_owned)),
            ("due_from", time(self.due_from)),
            ("due_to", time(self.due_to)),
            ("id_prefix", self.id_prefix.clone()),
            ("tag", self.tag.clone()),
            ("limit", Some(self.limit.to_string())),
            ("cursor", cursor),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name, value?)))
        .collect()
    }
}
