//! Checks that every error of opening, copying or restoring a store has its section in
//! `docs/operate/errors.md`.

use std::fs;

use duly_core::error_sections;

use super::OpenError;
use crate::{backup::BackupError, disk::Error as DiskError};

error_sections! {
    OPENING: OpenError;
    Disk => "## When a store is not opened",
    Newer => "### It was written by another version",
    Older => "### It was written by another version",
    Damaged => "### It is damaged",
    NoStore => "### It holds no store",
    Unwritable => "### There is no room",
    NoThread => "### No thread can be started",
    Options => "### An option is out of its range",
}

error_sections! {
    DISKS: DiskError;
    NotFound => "### The system refused",
    AlreadyExists => "### The system refused",
    PermissionDenied => "### It cannot be written",
    ReadOnly => "### It cannot be written",
    NotADirectory => "### It cannot be written",
    NotPlain => "### Something else than a file is there",
    NoSpace => "### There is no room",
    TooManyFiles => "### Too many files are open",
    Locked => "### It is in use",
    UnexpectedEnd => "### The system refused",
    InvalidName => "### The system refused",
    Io => "### The system refused",
}

error_sections! {
    COPYING: BackupError;
    NotEmpty => "### The target is not empty",
    Inside => "### The target is inside the data directory",
    Target => "### The target cannot be used",
    NoSpace => "### There is no room for the backup",
    Damaged => "### The backup is damaged",
    Busy => "### Another backup is under way",
    Closed => "### The server was stopped meanwhile",
    Store => "## Codes of answers",
    Disk => "## When a store is not opened",
    Open => "## When a store is not opened",
}

#[test]
fn every_reason_not_to_open_copy_or_restore_has_its_section() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operate/errors.md");
    let page = fs::read_to_string(path).expect("docs/operate/errors.md is committed");
    for heading in OPENING.iter().chain(DISKS).chain(COPYING) {
        assert!(page.lines().any(|line| line == *heading), "errors.md lacks {heading}");
    }
}
