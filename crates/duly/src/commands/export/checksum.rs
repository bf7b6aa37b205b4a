//! The checksum of an export: its last line has the number of the lines before it, and their SHA-256.
//!
//! A line counts without the spaces and the line end around it, and an empty line does not count. So a file
//! whose line ends were converted still matches. Several exports in one file are checked one by one.

use std::fmt::Write as _;

use hmac_sha256::Hash;
use serde::{Deserialize, Serialize};

use super::line::ExportLine;
use crate::output::text;

/// The last line of an export.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Trailer {
    /// Lines before it.
    pub(crate) lines: u64,
    /// SHA-256 of these lines, in hexadecimal.
    pub(crate) sha256: String,
}

/// The sum over the lines so far.
#[derive(Default)]
pub(crate) struct Sum {
    hash: Hash,
    lines: u64,
}

impl Sum {
    /// Adds a line without its line end.
    pub(crate) fn add(&mut self, line: &[u8]) {
        self.hash.update(line);
        self.hash.update(b"\n");
        self.lines += 1;
    }

    /// Returns the trailer of the lines so far, and begins again.
    pub(crate) fn end(&mut self) -> Trailer {
        let Self { hash, lines } = std::mem::take(self);
        let mut sha256 = String::new();
        for byte in hash.finalize() {
            // Writing to a string cannot fail.
            let _ok = write!(sha256, "{byte:02x}");
        }
        Trailer { lines, sha256 }
    }
}

/// The result of a check.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Checked {
    /// Every line is as it was exported.
    Whole,
    /// The file has no checksum: an older version wrote it.
    Unknown,
    /// The file is not as it was exported: the cause.
    Differs(String),
}

/// The check of a file, line by line.
#[derive(Default)]
pub(crate) struct Check {
    sum: Sum,
    /// `true`: a namespace has begun and not ended.
    is_open: bool,
    /// `true`: an end line said that a trailer follows.
    awaits_trailer: bool,
    has_trailer: bool,
    /// `true`: it has a line of an export.
    has_line: bool,
    difference: Option<String>,
}

impl Check {
    /// Adds a line; `None` for one that is too long. Returns `false` if it is no line of an export.
    pub(crate) fn add(&mut self, number: u64, line: Option<&[u8]>) -> bool {
        let read = line.and_then(|line| serde_json::from_slice::<ExportLine>(line).ok());
        let Some(read) = read else {
            self.note(format!("line {number} is not a line of an export"));
            self.sum.add(line.unwrap_or_default());
            return false;
        };
        self.has_line = true;
        if let Some(trailer) = read.trailer {
            let found = self.sum.end();
            if found.lines != trailer.lines {
                self.note(format!(
                    "before line {number} there are {}, and {} were exported: lines are missing or \
                     doubled",
                    text::count(found.lines, "line"),
                    trailer.lines
                ));
            } else if found.sha256 != trailer.sha256.to_ascii_lowercase() {
                self.note(format!(
                    "a line before line {number} was changed, or lines changed places"
                ));
            }
            (self.has_trailer, self.awaits_trailer, self.is_open) = (true, false, false);
            return true;
        }
        self.is_open = read.end.is_none() && (self.is_open || read.namespace.is_some());
        self.awaits_trailer |= read.end.is_some_and(|end| end.trailer);
        self.sum.add(line.unwrap_or_default());
        true
    }

    /// Returns the result, behind the last line.
    pub(crate) fn end(self, lines: u64) -> Checked {
        let is_begun = self.sum.lines > 0;
        match self.difference {
            Some(difference) if self.has_trailer || self.awaits_trailer || !self.has_line => {
                Checked::Differs(difference)
            }
            _ if !is_begun && !self.has_trailer => Checked::Differs("it is empty".to_owned()),
            _ if self.is_open || self.awaits_trailer || (self.has_trailer && is_begun) => {
                Checked::Differs(format!(
                    "it ends after line {lines} without its last line: it is truncated"
                ))
            }
            _ if self.has_trailer => Checked::Whole,
            _ => Checked::Unknown,
        }
    }

    /// Keeps the first difference.
    fn note(&mut self, difference: String) {
        self.difference.get_or_insert(difference);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(lines: &[String]) -> Checked {
        let mut check = Check::default();
        for (number, line) in (1..).zip(lines) {
            check.add(number, Some(line.as_bytes()));
        }
        check.end(lines.len() as u64)
    }

    fn exported(names: &[&str]) -> Vec<String> {
        let (mut lines, mut sum) = (Vec::new(), Sum::default());
        for name in names {
            lines.push(format!(r#"{{"namespace":{{"name":"{name}"}}}}"#));
            lines.extend(["a", "b"].map(|id| format!(r#"{{"timer":{{"id":"{id}"}}}}"#)));
            let end = format!(r#"{{"namespace":"{name}","timers":2,"dead":0,"trailer":true}}"#);
            lines.push(format!(r#"{{"end":{end}}}"#));
        }
        lines.iter().for_each(|line| sum.add(line.as_bytes()));
        let trailer = serde_json::to_string(&sum.end()).expect("it has a JSON form");
        lines.push(format!(r#"{{"trailer":{trailer}}}"#));
        lines
    }

    #[test]
    fn p11_every_changed_missing_or_doubled_line_is_noticed() {
        for names in [&["one"][..], &["one", "two"]] {
            let whole = exported(names);
            assert_eq!(checked(&whole), Checked::Whole);
            assert_eq!(checked(&[whole.clone(), exported(&["x"])].concat()), Checked::Whole);
            let differs = |lines: &[String], what: &str| {
                assert!(matches!(checked(lines), Checked::Differs(_)), "{what}: {lines:#?}");
            };
            for at in 0..whole.len() {
                differs(&[&whole[..at], &whole[at + 1..]].concat(), &format!("{at} is missing"));
                differs(&[&whole[..=at], &whole[at..]].concat(), &format!("{at} is doubled"));
                differs(&whole[..at], &format!("cut at {at}"));
                let mut changed = whole.clone();
                changed[at] = changed[at].replacen(r#""id":""#, r#""id":"x"#, 1);
                if changed == whole {
                    changed[at] = changed[at].replacen("e", "i", 1);
                }
                differs(&changed, &format!("{at} is changed"));
                if at + 2 < whole.len() {
                    let mut swapped = whole.clone();
                    swapped.swap(at, at + 1);
                    differs(&swapped, &format!("{at} has changed places"));
                }
            }
        }
    }

    #[test]
    fn a_file_of_an_older_version_has_no_checksum() {
        let mut lines = exported(&["one"]);
        lines.pop();
        let old: Vec<_> = lines.iter().map(|line| line.replace(r#","trailer":true"#, "")).collect();
        assert_eq!(checked(&old), Checked::Unknown);
        assert!(matches!(checked(&old[..3]), Checked::Differs(_)), "it is truncated");
        let cut = [old[0][..9].to_owned()];
        assert!(matches!(checked(&cut), Checked::Differs(_)), "cut within its first line");
    }
}
