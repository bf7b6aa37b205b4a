//! The report of a check, for programs and as text.

use std::fmt;

use serde::Serialize;

use crate::{engine::invariants::at_rest::Holding, open::Tail};

/// Most findings in a report. Further ones are only counted.
const FINDINGS_MAX: usize = 200;
/// Describes a copy that is not there.
pub(super) const MISSING: &str =
    "it is missing, and the other file of the pair is there; the next start writes it";
/// Most namespaces in the text.
const NAMESPACES_SHOWN: usize = 20;

/// The report of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The directory.
    #[serde(rename = "data")]
    pub location: String,
    /// `true`: the directory is a backup, or restored from one and not started yet.
    pub is_backup: bool,
    /// Format of the directory; 0 if the manifest cannot be read.
    pub format: u32,
    /// Epoch of the latest start.
    pub epoch: u64,
    /// Files by kind: segments, sorted runs, checkpoints.
    pub files: Vec<FilesOf>,
    /// Frames of the segments.
    pub frames: u64,
    /// Records of segments and sorted runs, by kind.
    pub records: Counts,
    /// Number of the checkpoint that a start would load.
    pub checkpoint: Option<u64>,
    /// Contents of each namespace, by name; empty if the state cannot be loaded.
    pub namespaces: Vec<Holding>,
    /// Damage. Each finding is something that was acknowledged and may be gone.
    pub findings: Vec<Finding>,
    /// Findings beyond those in `findings`.
    pub findings_left_out: u64,
    /// Files that nothing needs, such as left-overs of a crash, or files that are not Duly's; and missing copies of files
    /// that are kept twice.
    pub left_overs: Vec<LeftOver>,
    /// The end of the journal.
    pub tail: Tail,
}

/// All files of one kind.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct FilesOf {
    /// The kind.
    pub kind: &'static str,
    /// Number of files.
    pub count: u64,
    /// Bytes of the files.
    pub bytes: u64,
    /// Records in the files; entries, for checkpoints.
    pub records: u64,
    /// Records that the state points at.
    pub live: u64,
}

/// Records by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Records of pending timers.
    pub pending: u64,
    /// Dead letters.
    pub dead: u64,
    /// Ends of timers.
    pub ended: u64,
    /// Leases.
    pub leases: u64,
    /// Everything else.
    pub other: u64,
}

/// Damage at one place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// File, relative to the data directory.
    pub file: String,
    /// Byte in the file.
    #[serde(rename = "offset_bytes")]
    pub offset: u64,
    /// The fault.
    pub what: String,
    /// Its consequence.
    pub means: &'static str,
}

/// A file that nothing needs, or a copy that is missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftOver {
    /// Its name, relative to the data directory.
    #[serde(rename = "file")]
    pub name: String,
    /// A description of it.
    pub what: &'static str,
}

impl Report {
    /// Returns `true` if there are no findings. Left-overs and a tail that nothing confirms are normal
    /// after a crash; [`Report::tail`] says what cannot be known about the tail.
    pub const fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }

    /// Returns the files of a kind.
    pub fn files_of(&self, kind: &str) -> FilesOf {
        self.files.iter().find(|files| files.kind == kind).cloned().unwrap_or_default()
    }

    pub(super) fn count(&mut self, kind: &'static str, file: &FilesOf) {
        if !self.files.iter().any(|files| files.kind == kind) {
            self.files.push(FilesOf { kind, ..FilesOf::default() });
        }
        if let Some(files) = self.files.iter_mut().find(|files| files.kind == kind) {
            files.count += 1;
            files.bytes += file.bytes;
            files.records += file.records;
            files.live += file.live;
        }
    }

    /// Adds a finding. One place is noted only once.
    pub(super) fn find(&mut self, finding: Finding) {
        let is_same =
            |known: &Finding| known.file == finding.file && known.offset == finding.offset;
        if self.findings.iter().any(is_same) {
            return;
        }
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
        } else {
            self.findings_left_out += 1;
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "data directory  {}", self.location)?;
        if self.format > 0 {
            writeln!(f, "format          {}, epoch {}", self.format, self.epoch)?;
        }
        match self.checkpoint {
            Some(number) => writeln!(f, "opens from      checkpoint {number} and the journal")?,
            None => writeln!(f, "opens from      the journal")?,
        }
        writeln!(f)?;
        self.tables(f)?;
        if let Some(warning) = self.tail.warning() {
            writeln!(f, "tail            {warning}")?;
        }
        for LeftOver { name, what } in &self.left_overs {
            let label = if *what == MISSING { "missing copy" } else { "left over" };
            writeln!(f, "{label:<16}{name}: {what}")?;
        }
        for Finding { file, offset, what, means } in &self.findings {
            writeln!(f, "DAMAGED         {file} at byte {offset}: {what}")?;
            writeln!(f, "                {means}")?;
        }
        if self.findings_left_out > 0 {
            writeln!(f, "DAMAGED         and {} more places", self.findings_left_out)?;
        }
        if self.is_clean() {
            let verdict = match self.tail {
                Tail::Closed => "clean: every checksum, number and order holds",
                Tail::Open => "clean up to the last frame: every checksum, number and order holds",
                Tail::Unknown => "UNKNOWN at the end: all before it holds",
            };
            return write!(f, "verdict         {verdict}");
        }
        let places = self.findings.len() as u64 + self.findings_left_out;
        write!(f, "verdict         DAMAGED in {places} places")
    }
}

impl Report {
    fn tables(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.files.is_empty() {
            let heads = ["files", "count", "bytes", "records", "live"];
            let rows = self.files.iter().map(|files| {
                let numbers = [files.count, files.bytes, files.records];
                let [count, bytes, records] = numbers.map(|number| number.to_string());
                [files.kind.to_owned(), count, bytes, records, share(files)]
            });
            table(f, heads, rows)?;
        }
        if !self.namespaces.is_empty() {
            let shown = self.namespaces.iter().take(NAMESPACES_SHOWN);
            let rows = shown.map(|held| {
                let paused = if held.paused { " (paused)" } else { "" };
                let numbers = [held.pending, held.tombstones, held.dead];
                let [pending, tombstones, dead] = numbers.map(|number| number.to_string());
                [format!("{}{paused}", held.name), pending, tombstones, dead, String::new()]
            });
            table(f, ["namespace", "pending", "tombstones", "dead letters", ""], rows)?;
            if let Some(more @ 1..) = self.namespaces.len().checked_sub(NAMESPACES_SHOWN) {
                writeln!(f, "… and {more} more namespaces\n")?;
            }
        }
        Ok(())
    }
}

/// Formats the number of live records, and their percentage.
fn share(files: &FilesOf) -> String {
    if files.kind == CHECKPOINTS {
        return "-".to_owned();
    }
    // Records behind damage are not counted, even if they are live.
    if files.live > files.records {
        return format!("{} (? %)", files.live);
    }
    match (files.live * 100).checked_div(files.records) {
        Some(percent) => format!("{} ({percent} %)", files.live),
        None => "-".to_owned(),
    }
}

/// The kind of the files whose records are entries.
pub(super) const CHECKPOINTS: &str = "checkpoints";

/// Writes a table: the first column is left-aligned, the others right-aligned.
fn table(
    f: &mut fmt::Formatter<'_>,
    heads: [&str; 5],
    rows: impl Iterator<Item = [String; 5]>,
) -> fmt::Result {
    let mut lines = vec![heads.map(str::to_owned)];
    lines.extend(rows);
    let mut widths = [0; 5];
    for line in &lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = (*width).max(cell.chars().count());
        }
    }
    for line in &lines {
        let mut text = format!("{:<1$}", line[0], widths[0]);
        for (cell, width) in line.iter().zip(widths).skip(1) {
            text += &format!("  {cell:>width$}");
        }
        writeln!(f, "{}", text.trim_end())?;
    }
    writeln!(f)
}
