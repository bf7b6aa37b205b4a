//! How far something is: one line on stderr that is written over, for people who watch.

use std::io::{self, Write as _};

use crate::output::terminal::Screen;

/// Lines are written when so much more was done.
const STEP: u64 = 8 << 20;

/// The line.
pub(super) struct Shown {
    watched: bool,
    /// What it said last.
    last: Option<(&'static str, u64)>,
}

impl Shown {
    /// A line that nobody sees unless stderr is a terminal.
    pub(super) fn new() -> Self {
        Self { watched: Screen::stderr().is_terminal(), last: None }
    }

    /// Says how far `what` is; it does not matter whether anybody sees it.
    pub(super) fn show(&mut self, what: &'static str, done: u64, total: u64) {
        let is_new = self.last.is_none_or(|(last, at)| last != what || done >= at + STEP);
        if !self.watched || (!is_new && done != total) {
            return;
        }
        if self.last.is_some_and(|(last, _)| last != what) {
            io::stderr().write_all(b"\n").ok();
        }
        self.last = Some((what, done));
        let percent = (done * 100).checked_div(total).unwrap_or(100);
        let line = format!("\r{what}: {} of {} ({percent} %)  ", in_words(done), in_words(total));
        io::stderr().write_all(line.as_bytes()).ok();
    }

    /// The next line is somebody else's.
    pub(super) fn end(&self) {
        if self.watched && self.last.is_some() {
            io::stderr().write_all(b"\n").ok();
        }
    }
}

/// A number of bytes for people.
pub(super) fn in_words(bytes: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let unit = UNITS.into_iter().find(|(_, size)| bytes >= *size);
    unit.map_or_else(
        || format!("{bytes} bytes"),
        |(name, size)| {
            let tenths = u128::from(bytes) * 10 / u128::from(size);
            format!("{}.{} {name}", tenths / 10, tenths % 10)
        },
    )
}

#[cfg(test)]
mod tests {
    use super::in_words;

    #[test]
    fn bytes_are_shown_in_the_largest_unit_that_they_fill() {
        let check = |bytes, words| assert_eq!(in_words(bytes), words);
        check(0, "0 bytes");
        check(1_023, "1023 bytes");
        check(1_024, "1.0 KiB");
        check((1 << 20) - 1, "1023.9 KiB");
        check(3 << 29, "1.5 GiB");
        check(u64::MAX, "17179869183.9 GiB");
    }
}
