//! The lines of an input file, each with its number and a size limit.

use std::io::{self, BufRead, BufReader, Read};

/// Longest line: the largest payload as base64, and everything that can be beside it.
const LINE_BYTES_MAX: u64 = 32 << 20;
/// Bytes of a longer line after which the input is refused: it has no lines, or no end.
const SKIPPED_BYTES_MAX: u64 = 256 << 20;
/// Size of the read buffer.
const BUFFER_BYTES: usize = 256 * 1024;

/// A file that is read line by line.
pub(crate) struct Lines<R> {
    source: BufReader<R>,
    number: u64,
    read_bytes: u64,
    bytes_max: u64,
}

/// The content of a line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Text {
    /// The whole line.
    Whole(Vec<u8>),
    /// A line that is longer than the limit.
    TooLong,
}

impl Text {
    /// Returns the line, if it is not too long.
    pub(crate) fn whole(&self) -> Option<&[u8]> {
        match self {
            Self::Whole(line) => Some(line),
            Self::TooLong => None,
        }
    }
}

impl<R: Read> Lines<R> {
    /// Returns the lines of a source.
    pub(crate) fn new(source: R) -> Self {
        Self::up_to(source, LINE_BYTES_MAX)
    }

    fn up_to(source: R, bytes_max: u64) -> Self {
        let source = BufReader::with_capacity(BUFFER_BYTES, source);
        Self { source, number: 0, read_bytes: 0, bytes_max }
    }

    /// Returns the number of bytes read so far.
    pub(crate) fn read_bytes(&self) -> u64 {
        self.read_bytes
    }

    /// Returns the number of the last line.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Returns `true` if the next line was read already, so that reading it does not wait.
    pub(crate) fn has_next(&self) -> bool {
        self.source.buffer().contains(&b'\n')
    }

    /// Reads the next line that is not empty, without its line end.
    pub(crate) fn next(&mut self) -> io::Result<Option<Text>> {
        loop {
            let mut line = Vec::new();
            let mut bounded = self.source.by_ref().take(self.bytes_max + 1);
            let read = bounded.read_until(b'\n', &mut line)? as u64;
            if read == 0 {
                return Ok(None);
            }
            self.number += 1;
            self.read_bytes += read;
            let is_ended = line.last() == Some(&b'\n');
            if !is_ended && read > self.bytes_max {
                self.skip()?;
                return Ok(Some(Text::TooLong));
            }
            let text = line.trim_ascii();
            if !text.is_empty() {
                return Ok(Some(Text::Whole(text.to_vec())));
            }
        }
    }

    /// Skips the rest of the line.
    fn skip(&mut self) -> io::Result<()> {
        let bound = self.read_bytes + SKIPPED_BYTES_MAX;
        while self.read_bytes < bound {
            let buffer = self.source.fill_buf()?;
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let used = end.map_or(buffer.len(), |end| end + 1);
            self.source.consume(used);
            self.read_bytes += used as u64;
            if end.is_some() || used == 0 {
                return Ok(());
            }
        }
        let reason = format!("line {} has more than {} MiB", self.number, bound >> 20);
        Err(io::Error::new(io::ErrorKind::FileTooLarge, reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_numbered_and_limited() {
        let source = "one\n\n  \r\ntwo\r\nmuch too long\nfits\nlast";
        let mut lines = Lines::up_to(source.as_bytes(), 4);
        let mut seen = Vec::new();
        while let Some(text) = lines.next().expect("readable") {
            seen.push((lines.number(), text));
        }
        let whole = |text: &str| Text::Whole(text.as_bytes().to_vec());
        assert_eq!(
            seen,
            [
                (1, whole("one")),
                (4, whole("two")),
                (5, Text::TooLong),
                (6, whole("fits")),
                (7, whole("last"))
            ]
        );
        assert_eq!(lines.read_bytes(), source.len() as u64);
    }
}
