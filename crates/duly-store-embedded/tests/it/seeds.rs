//! Numbers that the environment may set, for longer runs and to repeat a failure, and how to.

/// The number in a variable of the environment, or a default.
pub(crate) fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Tells how to repeat a course that ends with a panic, wherever in it.
#[derive(Debug)]
pub(crate) struct Repeat(pub(crate) String);

impl Drop for Repeat {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("repeat with: {}", self.0);
        }
    }
}
