//! The faults of a file.

use std::fmt;

use super::base::{Base, Files};
use crate::faulty::kind_of;

/// Parts of a file after each of which a byte is flipped.
const PARTS: usize = 16;

/// The kind of a fault, in the order of the columns of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum How {
    Damaged,
    Missing,
    Doubled,
    Older,
}

/// A fault of one file.
#[derive(Debug, Clone)]
pub(super) struct Fault {
    pub(super) name: String,
    pub(super) how: How,
    /// The flipped byte, the name of the copy, or the origin of the older bytes.
    detail: String,
    put: Vec<(String, Option<Vec<u8>>)>,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?} {}", self.name, self.how, self.detail)
    }
}

impl Fault {
    /// Returns the names that have other bytes than before.
    pub(super) fn names(&self) -> Vec<String> {
        self.put.iter().map(|(name, _)| name.clone()).collect()
    }

    /// Returns the directory with this fault.
    pub(super) fn of(&self, base: &Base) -> Files {
        let mut files = base.files.clone();
        for (name, bytes) in &self.put {
            match bytes {
                Some(bytes) => drop(files.insert(name.clone(), bytes.clone())),
                None => drop(files.remove(name)),
            }
        }
        files
    }
}

/// Returns the faults to try: `all`, or some of the last file of each kind.
pub(super) fn cells(base: &Base, all: bool) -> Vec<Fault> {
    let mut faults = Vec::new();
    for (name, bytes) in &base.files {
        let mut others = base.files.keys().filter(|other| kind_of(other) == kind_of(name));
        let is_last = others.next_back() == Some(name);
        // Each sorted run has another kind of records.
        if !all && !is_last && !name.ends_with(".run") {
            continue;
        }
        let new = |how, detail: String, put| Fault { name: name.clone(), how, detail, put };
        for at in places(bytes, all) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            let put = vec![(name.clone(), Some(damaged))];
            faults.push(new(How::Damaged, format!("at byte {at}"), put));
        }
        if !all && !is_last {
            continue;
        }
        faults.push(new(How::Missing, String::new(), vec![(name.clone(), None)]));
        for copy in copies(base, name) {
            let put = vec![(copy.clone(), Some(bytes.clone()))];
            faults.push(new(How::Doubled, format!("as {copy}"), put));
        }
        for (origin, older) in older(base, name) {
            faults.push(new(How::Older, origin, vec![(name.clone(), Some(older))]));
        }
    }
    faults
}

/// Returns the bytes to flip: in the header and here and there in the content.
fn places(bytes: &[u8], all: bool) -> Vec<usize> {
    let Some(last) = bytes.iter().rposition(|byte| *byte != 0) else { return Vec::new() };
    let mut places = vec![20.min(last), last / 2];
    if all {
        places.extend((0..=PARTS).map(|part| last * part / PARTS));
    }
    places.sort_unstable();
    places.dedup();
    places
}

/// Returns plausible names for a copy of a file.
fn copies(base: &Base, name: &str) -> Vec<String> {
    let digits = name.find(|letter: char| letter.is_ascii_digit());
    let Some(number) = digits.map(|at| &name[at..at + 16]) else {
        let pair = match name.strip_suffix(".copy") {
            Some(first) => first.to_owned(),
            None => format!("{name}.copy"),
        };
        return vec![format!("{name}.bak"), pair];
    };
    let value: u64 = number.parse().expect("a number");
    let mut names = vec![
        name.replace(number, &format!("{:016}", value + 1)),
        name.replace(number, &value.to_string()),
        format!("{name}.bak"),
        name.replace(".log", ".old"),
    ];
    names.extend((value > 1).then(|| name.replace(number, &format!("{:016}", value - 1))));
    names.extend(name.ends_with(".log").then(|| "journal/spare".to_owned()));
    names.retain(|copy| copy != name && !base.files.get(copy).is_some_and(Vec::is_empty));
    names.sort_unstable();
    names.dedup();
    names
}

/// Returns earlier bytes of a file: of this name, and of the file of its kind before it.
fn older(base: &Base, name: &str) -> Vec<(String, Vec<u8>)> {
    let now = &base.files[name];
    let mut found = Vec::new();
    for (age, files) in base.earlier.iter().enumerate() {
        if let Some(bytes) = files.get(name).filter(|bytes| *bytes != now) {
            found.push((format!("of copy {age}"), bytes.clone()));
        }
    }
    let kind = kind_of(name);
    let before = base.files.range(..name.to_owned()).rfind(|(other, _)| kind_of(other) == kind);
    if let Some((other, bytes)) = before {
        found.push((format!("with the bytes of {other}"), bytes.clone()));
    }
    found
}
