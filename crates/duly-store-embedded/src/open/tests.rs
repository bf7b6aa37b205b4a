//! Checks that every error of opening, copying or restoring a store has its section in
//! `docs/operate/errors.md`.

use std::fs;

use duly_core::error_sections;

use super::OpenError;
use crate::{backup::BackupError, disk::Error as DiskError};

error_sections! {
    OPENING: OpenError;
    Disk => "## When a store is not opened",
    Newer => "### Another version wrote the directory",
    Older => "### Another version wrote the directory",
    Damaged => "### The directory is damaged",
    NoStore => "### The directory holds no store",
    Unwritable => "### No disk space is left",
    NoThread => "### No thread can be started",
    Keys => "### The keys are damaged",
    Options => "### An option is out of its range",
}

error_sections! {
    DISKS: DiskError;
    NotFound => "### The operating system returned an error",
    AlreadyExists => "### The operating system returned an error",
    PermissionDenied => "### The directory is not writable",
    ReadOnly => "### The directory is not writable",
    NotADirectory => "### The directory is not writable",
    NotPlain => "### A file is not a plain file",
    NoSpace => "### No disk space is left",
    TooManyFiles => "### Too many files are open",
    Locked => "### The directory is in use",
    UnexpectedEnd => "### The operating system returned an error",
    InvalidName => "### The operating system returned an error",
    Io => "### The operating system returned an error",
}

error_sections! {
    COPYING: BackupError;
    NotEmpty => "### The target is not empty",
    Inside => "### The target is inside the data directory",
    Target => "### The target cannot be used",
    NoSpace => "### Too little disk space for the backup",
    Damaged => "### The backup is damaged",
    Busy => "### Another backup is under way",
    Closed => "### The server stopped during the backup",
    Store => "## Error codes",
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
