//! Where log lines go: standard error, as text for people or JSON for programs.

use tracing_subscriber::EnvFilter;

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// For programs: one JSON object a line.
    Json,
}

/// Checks a filter such as `info` or `info,duly_node=debug`.
pub fn is_filter(text: &str) -> bool {
    !text.trim().is_empty() && EnvFilter::try_new(text).is_ok()
}

/// Starts logging, unless the process logs already. Answers whether it was this call.
pub fn init(filter: &str, format: Format) -> bool {
    let filter = EnvFilter::try_new(filter).unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        Format::Text => builder.try_init(),
        Format::Json => builder.json().try_init(),
    }
    .is_ok()
}
