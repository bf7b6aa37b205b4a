//! Which timers: the filters of a list, and paging through it.

use duly_core::{State, Timestamp};

use super::{due, values};

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
    /// Every page, one after the other; with --cursor from there on
    #[arg(long)]
    pub(crate) all: bool,
}

impl Filter {
    /// The first page to ask for.
    pub(crate) fn cursor(&self) -> Option<String> {
        self.cursor.clone()
    }

    /// What to list.
    pub(crate) fn which(&self, state: Option<State>) -> duly_client::Filter {
        let mut filter = duly_client::Filter::new().page(self.limit.into());
        if let Some(state) = state {
            filter = filter.state(state);
        }
        if let Some(from) = self.due_from {
            filter = filter.due_from(due::time(from));
        }
        if let Some(to) = self.due_to {
            filter = filter.due_to(due::time(to));
        }
        if let Some(prefix) = &self.id_prefix {
            filter = filter.id_prefix(prefix);
        }
        if let Some(tag) = &self.tag {
            filter = filter.tag(tag);
        }
        filter
    }
}
