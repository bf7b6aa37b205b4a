//! The places of the parts of a store's files, as in `docs/internals/disk-format.md`. They are parsed
//! again here, so that the test does not rely on the code that it tests.

use std::ops::Range;

/// A stretch of a file.
pub(super) struct FilePart {
    pub(super) what: &'static str,
    pub(super) size: Size,
    pub(super) range: Range<usize>,
}

/// The number of its bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Size {
    /// A few bytes in a file.
    Frame,
    /// Many bytes.
    Content,
}

/// Records by kind.
const RECORDS: [&str; 10] = [
    "no record",
    "a pending timer",
    "a dead letter",
    "an end",
    "a lease",
    "a purge",
    "a namespace",
    "the end of a namespace",
    "a loss",
    "an eviction",
];

/// Blocks of a checkpoint by kind.
const BLOCKS: [&str; 7] = [
    "no block",
    "a block of a namespace",
    "a block of entries",
    "a block of leases",
    "a block of several letters",
    "a block of files",
    "the last block",
];

/// All parts that a store must have for the test.
pub(super) const ALL: &[&str] = &[
    "the manifest",
    "the header of a segment",
    "the header of a frame",
    "the header of a run",
    "the directory of a run",
    "the trailer of a run",
    "the header of a checkpoint",
    RECORDS[1],
    RECORDS[2],
    RECORDS[3],
    RECORDS[4],
    RECORDS[5],
    RECORDS[6],
    RECORDS[9],
    BLOCKS[1],
    BLOCKS[2],
    BLOCKS[3],
    BLOCKS[4],
    BLOCKS[5],
    BLOCKS[6],
];

pub(super) fn is_known(name: &str) -> bool {
    name.starts_with("MANIFEST")
        || [".log", ".run", ".ckp"].iter().any(|suffix| name.ends_with(suffix))
}

/// Returns the parts of a file, in order.
pub(super) fn parts_of(name: &str, bytes: &[u8]) -> Vec<FilePart> {
    let mut parts = Vec::new();
    match name.rsplit('.').next() {
        Some("log") => segment(bytes, &mut parts),
        Some("run") => run(bytes, &mut parts),
        Some("ckp") => checkpoint(bytes, &mut parts),
        _ => parts.push(frame("the manifest", 0..76)),
    }
    parts
}

fn frame(what: &'static str, range: Range<usize>) -> FilePart {
    FilePart { what, size: Size::Frame, range }
}

fn number(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes")) as usize
}

fn segment(bytes: &[u8], parts: &mut Vec<FilePart>) {
    parts.push(frame("the header of a segment", 0..64));
    let mut at = 64;
    while bytes[at..].starts_with(b"DLYf") {
        let size = if at == 64 { Size::Frame } else { Size::Content };
        parts.push(FilePart { what: "the header of a frame", size, range: at..at + 48 });
        let end = at + 48 + number(bytes, at + 4);
        records(bytes, at + 48..end, parts);
        at = end;
    }
}

fn run(bytes: &[u8], parts: &mut Vec<FilePart>) {
    let trailer = bytes.len() - 64;
    let directory = number(bytes, trailer + 32);
    parts.push(frame("the header of a run", 0..64));
    records(bytes, 64..directory, parts);
    parts.push(frame("the directory of a run", directory..trailer));
    parts.push(frame("the trailer of a run", trailer..bytes.len()));
}

fn records(bytes: &[u8], within: Range<usize>, parts: &mut Vec<FilePart>) {
    let mut at = within.start;
    while at < within.end {
        let end = at + (16 + number(bytes, at + 4)).next_multiple_of(16);
        let what = RECORDS[usize::from(bytes[at + 8])];
        parts.push(FilePart { what, size: Size::Content, range: at..end });
        at = end;
    }
}

fn checkpoint(bytes: &[u8], parts: &mut Vec<FilePart>) {
    parts.push(frame("the header of a checkpoint", 0..96));
    let mut at = 96;
    while at < bytes.len() {
        let kind = number(bytes, at);
        let end = at + (16 + number(bytes, at + 4)).next_multiple_of(16);
        let size = if kind == 6 { Size::Frame } else { Size::Content };
        parts.push(FilePart { what: BLOCKS[kind], size, range: at..end });
        at = end;
    }
}
