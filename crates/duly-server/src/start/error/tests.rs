//! Every startup error has its section in `docs/operate/errors.md`.

use std::fs;

use duly_core::error_sections;
use duly_store_embedded::{OpenError, disk};

use super::StartError;
use crate::config::{Error as ConfigError, Origin};

error_sections! {
    STARTING: StartError;
    StoreEnded => "### The store has ended",
    Listen => "### The port cannot be used",
    Make => "### The data directory cannot be created",
    Foreign => "### The data directory holds other files",
    Open => "### The data directory cannot be opened",
    Shared => "### The shared store cannot be opened",
    File => "### A file of the configuration cannot be used",
    Traces => "### The spans cannot be sent",
    Sink => "### A file of the webhook client cannot be used",
    Store => "### The store does not respond",
    Thread => "### The store does not respond",
}

error_sections! {
    CONFIGURING: ConfigError;
    Unreadable => "### A file that cannot be read",
    Malformed => "### A file that is not TOML",
    UnknownSection => "### An unknown name",
    NotASection => "### An unknown name",
    UnknownKey => "### An unknown name",
    Value => "### A value that is not allowed",
}

#[test]
fn every_reason_not_to_start_has_its_section() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operate/errors.md");
    let page = fs::read_to_string(path).expect("docs/operate/errors.md is committed");
    for heading in STARTING.iter().chain(CONFIGURING) {
        assert!(page.lines().any(|line| line == *heading), "errors.md lacks {heading}");
    }
}

#[test]
fn a_full_volume_names_the_size_of_a_segment() {
    let full = disk::Error::NoSpace {
        operation: disk::Operation::SetLength,
        name: "journal/next.tmp".to_owned(),
    };
    let source = Box::new(OpenError::Disk(full));
    let error = StartError::Open { path: "/data".into(), origin: Origin::Default, source };
    assert!(error.to_string().contains("DULY_STORE__SEGMENT_BYTES"), "{error}");
}
