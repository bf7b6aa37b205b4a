//! Where to: `--url` or `--pull`.

use serde::Serialize;

/// The destination of a firing.
#[derive(clap::Args)]
#[group(multiple = false)]
pub(crate) struct Place {
    /// Deliver to this webhook
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    /// Let consumers lease it
    #[arg(long)]
    pull: bool,
}

/// A destination as a request says it.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DestinationField {
    Pull {},
    Http { url: String },
}

impl Place {
    /// The destination, where one is given.
    pub(crate) fn field(self) -> Option<DestinationField> {
        match (self.url, self.pull) {
            (Some(url), _) => Some(DestinationField::Http { url }),
            (None, true) => Some(DestinationField::Pull {}),
            (None, false) => None,
        }
    }
}
