//! Cuts a stream of bytes into lines, each with its number. Pure.
//!
//! Empty lines count and are left out. A line that is too long is dropped as it comes and reported
//! once, so that it holds no more memory than the limit.

use bytes::{Buf, Bytes, BytesMut};

/// One line of the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Line {
    /// Its text, without the line's end.
    Text(Bytes),
    /// It was longer than a line may be.
    TooLong {
        /// What it may have.
        bytes_max: usize,
    },
}

impl Line {
    /// Bytes of its text.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::TooLong { .. } => 0,
        }
    }
}

/// What was read and not yet taken.
#[derive(Debug)]
pub(super) struct Splitter {
    held: BytesMut,
    /// No line ends before this place of `held`.
    searched: usize,
    /// The line under way was too long; the rest of it is dropped.
    dropping: bool,
    line: u64,
    line_bytes_max: usize,
}

impl Splitter {
    /// Takes lines up to this size.
    pub(super) fn new(line_bytes_max: usize) -> Self {
        let held = BytesMut::new();
        Self { held, searched: 0, dropping: false, line: 0, line_bytes_max }
    }

    /// More has come.
    pub(super) fn push(&mut self, part: &[u8]) {
        let part = if self.dropping && self.held.is_empty() {
            // Only the end of the line matters.
            let end = part.iter().position(|byte| *byte == b'\n').unwrap_or(part.len());
            &part[end..]
        } else {
            part
        };
        self.held.extend_from_slice(part);
    }

    /// Bytes that are held.
    pub(super) fn held(&self) -> usize {
        self.held.len()
    }

    /// The number of the last line that was taken.
    pub(super) fn line(&self) -> u64 {
        self.line
    }

    /// Takes whole lines, at most so many; at the end of the stream also one that does not end.
    pub(super) fn take(&mut self, lines_max: usize, at_end: bool) -> Vec<(u64, Line)> {
        let mut lines = Vec::new();
        while lines.len() < lines_max {
            let end = self.held[self.searched..].iter().position(|byte| *byte == b'\n');
            let Some(end) = end.map(|end| self.searched + end) else {
                self.searched = self.held.len();
                if self.searched > self.line_bytes_max {
                    self.dropping = true;
                    self.forget();
                }
                if at_end && (self.dropping || !self.held.is_empty()) {
                    let rest = self.held.split().freeze();
                    self.searched = 0;
                    self.end_line(rest, &mut lines);
                }
                break;
            };
            let text = self.held.split_to(end).freeze();
            self.held.advance(1);
            self.searched = 0;
            self.end_line(text, &mut lines);
        }
        lines
    }

    fn end_line(&mut self, text: Bytes, lines: &mut Vec<(u64, Line)>) {
        self.line += 1;
        let too_long = std::mem::take(&mut self.dropping) || text.len() > self.line_bytes_max;
        if too_long {
            lines.push((self.line, Line::TooLong { bytes_max: self.line_bytes_max }));
        } else if !text.trim_ascii().is_empty() {
            lines.push((self.line, Line::Text(text)));
        }
    }

    fn forget(&mut self) {
        // A new one: clearing would keep the memory.
        self.held = BytesMut::new();
        self.searched = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &'static str) -> Line {
        Line::Text(Bytes::from_static(text.as_bytes()))
    }

    fn all(parts: &[&str], lines_max: usize) -> Vec<(u64, Line)> {
        let mut splitter = Splitter::new(8);
        let mut lines = Vec::new();
        for part in parts {
            splitter.push(part.as_bytes());
            loop {
                let taken = splitter.take(lines_max, false);
                if taken.is_empty() {
                    break;
                }
                lines.extend(taken);
            }
            assert!(splitter.held() <= 8 + part.len(), "a long line holds no memory");
        }
        loop {
            let taken = splitter.take(lines_max, true);
            if taken.is_empty() {
                return lines;
            }
            lines.extend(taken);
        }
    }

    #[test]
    fn lines_keep_their_numbers_wherever_the_parts_end() {
        let whole = "a\r\n\nbc\n  \nlast";
        let expected = [(1, text("a\r")), (3, text("bc")), (5, text("last"))];
        for lines_max in [1, 2, 100] {
            assert_eq!(all(&[whole], lines_max), expected);
            let bytes: Vec<_> = (0..whole.len()).map(|i| &whole[i..=i]).collect();
            assert_eq!(all(&bytes, lines_max), expected);
        }
    }

    #[test]
    fn a_line_that_is_too_long_takes_no_other_with_it() {
        let too_long = Line::TooLong { bytes_max: 8 };
        let expected = [(1, text("a")), (2, too_long.clone()), (3, text("12345678"))];
        for parts in [
            &["a\n123456789\n12345678"][..],
            &["a\n12345", "6789", "0", "xxxxxxxxxxxxx", "\n", "12345678\n"],
            &["a\n", "1234567890", "\n12345678"],
        ] {
            assert_eq!(all(parts, 100), expected, "{parts:?}");
        }
        assert_eq!(all(&["1234567890"], 100), [(1, too_long)]);
    }
}
