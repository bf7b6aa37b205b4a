//! Numbers that the environment may set, for longer runs and to repeat a failure.

/// The number in a variable of the environment, or a default.
pub(crate) fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}
