//! What a check found, for programs and for people.

use std::fmt;

use crate::open::Tail;

/// Findings that are kept; with more, only their number is.
const FINDINGS_MAX: usize = 200;
/// Namespaces that are shown one by one.
const NAMESPACES_SHOWN: usize = 20;

/// What a check found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// The directory.
    pub location: String,
    /// Format of the directory; 0 where the manifest cannot be read.
    pub format: u32,
    /// Epoch of the latest opening.
    pub epoch: u64,
    /// Files by kind: segments, runs, checkpoints.
    pub files: Vec<FilesOf>,
    /// Frames of the segments.
    pub frames: u64,
    /// Records of segments and runs, by kind.
    pub records: Counts,
    /// Number of the checkpoint that an opening would begin with.
    pub checkpoint: Option<u64>,
    /// What each namespace holds, by name; empty where the state cannot be loaded.
    pub namespaces: Vec<Holding>,
    /// What is damaged. Each of them is something that was acknowledged and may be gone.
    pub findings: Vec<Finding>,
    /// Findings that are not among those.
    pub findings_left_out: u64,
    /// Files that nothing needs: traces of a crash, or somebody else's.
    pub left_overs: Vec<LeftOver>,
    /// How the journal ends.
    pub tail: Tail,
}

/// All files of one kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FilesOf {
    /// Which kind.
    pub kind: &'static str,
    /// How many.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Records in them; of checkpoints, entries.
    pub records: u64,
    /// Records that the state points at.
    pub live: u64,
}

/// Records by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Whole timers.
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

/// What a namespace holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holding {
    /// Its name.
    pub name: String,
    /// Whether it is paused.
    pub paused: bool,
    /// Pending timers.
    pub pending: u64,
    /// Tombstones of ended timers.
    pub tombstones: u64,
    /// Dead letters.
    pub dead: u64,
}

/// Something that is damaged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// File, within the data directory.
    pub file: String,
    /// Where in it.
    pub offset: u64,
    /// What is wrong there.
    pub what: String,
    /// What follows from it.
    pub means: &'static str,
}

/// A file that nothing needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftOver {
    /// Its name, within the data directory.
    pub name: String,
    /// What it is.
    pub what: &'static str,
}

impl Report {
    /// Whether nothing is known to be wrong. Left-overs and a tail that nothing confirms are what a
    /// crash leaves; [`Report::tail`] says what cannot be told of it.
    pub const fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }

    /// The files of a kind.
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

    /// Notes what is damaged; one place is noted once.
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
            writeln!(f, "left over       {name}: {what}")?;
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

/// How many of the records are live, and which share that is.
fn share(files: &FilesOf) -> String {
    if files.kind == CHECKPOINTS {
        return "-".to_owned();
    }
    // Records behind damage are not counted, also where they are live.
    if files.live > files.records {
        return format!("{} (? %)", files.live);
    }
    match (files.live * 100).checked_div(files.records) {
        Some(percent) => format!("{} ({percent} %)", files.live),
        None => "-".to_owned(),
    }
}

/// Kind of the files whose records are entries.
pub(super) const CHECKPOINTS: &str = "checkpoints";

/// The first column to the left, numbers to the right.
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
