//! The namespace that a command is about.

use duly_core::NamespaceName;

use super::values;

/// A namespace.
#[derive(clap::Args)]
pub(crate) struct Named {
    /// The namespace
    #[arg(value_parser = values::namespace)]
    pub(crate) namespace: NamespaceName,
}
