//! Headers and tags, as `schedule` and `reschedule` take them.

use super::values;

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
    /// The headers, where any are given. A name typed twice is sent twice, for the server to refuse.
    pub(crate) fn headers(&self) -> Option<&[(String, String)]> {
        (!self.headers.is_empty()).then_some(&self.headers)
    }

    /// The tags, where any are given.
    pub(crate) fn tags(&self) -> Option<&[String]> {
        (!self.tags.is_empty()).then_some(&self.tags)
    }
}
