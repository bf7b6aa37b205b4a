//! Cuts a stream of bytes into numbered lines. Does no I/O.
//!
//! 1. Empty lines are numbered and left out.
//! 2. A line that is too long is dropped as it arrives and reported once, so that it holds no more
//!    memory than the limit.
//! 3. Allocated memory counts, not used bytes: a rest behind a long line would otherwise keep the whole
//!    memory of that line (P10).

use bytes::{Buf, Bytes, BytesMut};

use crate::http::body::grown;

/// Memory that may be allocated ahead of the bytes, at any limit of a line.
const AHEAD_BYTES_MAX: usize = 1024 * 1024;

/// One line of the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum InputLine {
    /// The text, without the line break.
    Text(Bytes),
    /// A line longer than the limit.
    TooLong {
        /// The limit.
        bytes_max: usize,
    },
}

impl InputLine {
    /// Returns the bytes of its text.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::TooLong { .. } => 0,
        }
    }
}

/// The bytes that were read and not taken yet.
#[derive(Debug)]
pub(super) struct Splitter {
    held: BytesMut,
    /// `true`: lines were cut from the memory of `held`, whose capacity no longer shows all of it.
    is_cut: bool,
    /// Offset in `held`: no line ends before it.
    searched: usize,
    /// `true`: the current line was too long; the rest of it is dropped.
    dropping: bool,
    line: u64,
    line_bytes_max: usize,
}

impl Splitter {
    /// Creates a splitter for lines up to this size.
    pub(super) fn new(line_bytes_max: usize) -> Self {
        let held = BytesMut::new();
        Self { held, is_cut: false, searched: 0, dropping: false, line: 0, line_bytes_max }
    }

    /// Releases the memory that the rest shares with lines that were taken. Call it when those lines are
    /// handled, before the next push.
    pub(super) fn release(&mut self) {
        if std::mem::take(&mut self.is_cut) {
            // At most one copy for each line: the rest holds no complete line.
            self.held = BytesMut::from(&self.held[..]);
        }
    }

    /// Appends bytes.
    pub(super) fn push(&mut self, part: &[u8]) {
        let part = if self.dropping && self.held.is_empty() {
            // Only the end of the line matters.
            let end = part.iter().position(|byte| *byte == b'\n').unwrap_or(part.len());
            &part[end..]
        } else {
            part
        };
        self.release();
        let capacity = self.capacity_with(part.len());
        if capacity > self.held.capacity() {
            let mut larger = BytesMut::with_capacity(capacity);
            larger.extend_from_slice(&self.held);
            self.held = larger;
        }
        self.held.extend_from_slice(part);
    }

    /// Returns the held bytes.
    pub(super) fn held(&self) -> usize {
        self.held.len()
    }

    /// Returns the bytes of memory that are used with `more` further bytes.
    pub(super) fn capacity_with(&self, more: usize) -> usize {
        let ahead_max = self.line_bytes_max.max(AHEAD_BYTES_MAX);
        grown(self.held.capacity(), self.held.len() + more, ahead_max)
    }

    /// Returns `true` if the last line is incomplete.
    pub(super) fn is_within_line(&self) -> bool {
        self.dropping || !self.held.is_empty()
    }

    /// Returns the number of the last line that was taken.
    pub(super) fn line(&self) -> u64 {
        self.line
    }

    /// Takes at most `lines_max` complete lines; at the end of the stream also an incomplete one.
    pub(super) fn take(&mut self, lines_max: usize, at_end: bool) -> Vec<(u64, InputLine)> {
        let mut lines = Vec::new();
        while lines.len() < lines_max {
            let end = self.held[self.searched..].iter().position(|byte| *byte == b'\n');
            let Some(end) = end.map(|end| self.searched + end) else {
                self.searched = self.held.len();
                if self.searched > self.line_bytes_max {
                    self.dropping = true;
                    self.discard();
                }
                if at_end && (self.dropping || !self.held.is_empty()) {
                    let rest = self.held.split().freeze();
                    self.searched = 0;
                    self.end_line(rest, &mut lines);
                }
                break;
            };
            self.is_cut = true;
            let text = self.held.split_to(end).freeze();
            self.held.advance(1);
            self.searched = 0;
            self.end_line(text, &mut lines);
        }
        lines
    }

    fn end_line(&mut self, text: Bytes, lines: &mut Vec<(u64, InputLine)>) {
        self.line += 1;
        let too_long = std::mem::take(&mut self.dropping) || text.len() > self.line_bytes_max;
        if too_long {
            lines.push((self.line, InputLine::TooLong { bytes_max: self.line_bytes_max }));
        } else if !text.trim_ascii().is_empty() {
            lines.push((self.line, InputLine::Text(text)));
        }
    }

    fn discard(&mut self) {
        // A new buffer: clearing would keep the memory.
        self.held = BytesMut::new();
        self.is_cut = false;
        self.searched = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &'static str) -> InputLine {
        InputLine::Text(Bytes::from_static(text.as_bytes()))
    }

    fn all(parts: &[&str], lines_max: usize) -> Vec<(u64, InputLine)> {
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
    fn p10_handled_lines_release_their_memory() {
        const MIB: usize = 1024 * 1024;
        let mut splitter = Splitter::new(4 * MIB);
        for (rest, capacity_max) in [("", 0), ("bc", 64), ("", 0)] {
            for part in ["a".repeat(3 * MIB).as_bytes(), b"aaa", b"\n", rest.as_bytes()] {
                let capacity = splitter.capacity_with(part.len());
                splitter.push(part);
                assert!(splitter.held.capacity() <= capacity, "more is taken than was counted");
            }
            assert_eq!(splitter.take(100, false).len(), 1);
            splitter.release();
            assert_eq!(splitter.held(), rest.len());
            let capacity = splitter.capacity_with(0);
            assert!(capacity <= capacity_max, "{capacity} bytes are kept for {rest:?}");
            // Nothing more to reclaim: released memory does not come back.
            splitter.push(b"d\n");
            assert!(splitter.held.capacity() <= 64, "{}", splitter.held.capacity());
            assert_eq!(splitter.take(100, false).len(), 1);
        }
    }

    #[test]
    fn p10_buffer_growth_stays_within_the_line_limit() {
        let mut splitter = Splitter::new(4 * 1024 * 1024);
        for _ in 0..4 * 64 {
            splitter.push(&[b'a'; 16 * 1024]);
            assert!(splitter.capacity_with(0) <= 4 * 1024 * 1024, "{}", splitter.capacity_with(0));
        }
    }

    #[test]
    fn long_lines_do_not_affect_other_lines() {
        let too_long = InputLine::TooLong { bytes_max: 8 };
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
