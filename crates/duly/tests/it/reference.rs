//! Compares the reference page of the command line with the program's output.

use std::fs;

use crate::harness::run;

#[test]
fn the_reference_of_the_command_line_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/cli.md");
    let page = fs::read_to_string(path).expect("docs/reference/cli.md is committed");
    let printed = run(&["__cli-docs"]).ok();
    assert!(page == printed, "stale: run `cargo xtask cli-docs`");
}

#[test]
fn the_openapi_document_parses() {
    let document = run(&["__openapi"]).json();
    assert!(document["openapi"].as_str().is_some_and(|version| version.starts_with("3.1")));
}
