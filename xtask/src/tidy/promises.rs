//! Checks that the page of delivery guarantees has every promise of the store, and names tests that show
//! it.
//!
//! The promises are those in the documentation of the `Store` trait (`* **P1 durable**`). Each has a
//! section on the page (`## P1 Durable`), with a paragraph that begins with `*Shown by*` and names test
//! functions in backticks.

use std::collections::BTreeSet;

use super::Complaint;
use super::tree::File;

/// The page.
const PAGE: &str = "docs/guide/delivery-guarantees.md";
/// The file that lists the promises.
const STORE: &str = "crates/duly-store/src/store.rs";
/// The beginning of a paragraph that names tests.
const SHOWN_BY: &str = "*Shown by*";

/// Complains of promises without a section or without tests, and of tests that do not exist.
pub(super) fn check(pages: &[File], sources: &[File]) -> Vec<Complaint> {
    let Some(page) = pages.iter().find(|page| page.path == PAGE) else {
        return Vec::new();
    };
    let functions = functions(sources);
    let mut found = Vec::new();
    let mut shown = BTreeSet::new();
    let mut section = String::new();
    for (line, number) in page.text.lines().zip(1..) {
        if let Some(title) = line.strip_prefix("## ") {
            section = title.to_lowercase();
        }
        let Some(names) = line.strip_prefix(SHOWN_BY) else { continue };
        for name in names.split('`').skip(1).step_by(2) {
            if functions.contains(name) {
                shown.insert(section.clone());
            } else {
                let text = format!("there is no test `{name}`: name one that shows this");
                found.push(Complaint::at(PAGE, number, text));
            }
        }
    }
    for promise in promises(sources) {
        if !shown.contains(&promise) {
            let text =
                format!("wants a section `## {promise}` with a `{SHOWN_BY}` that names tests");
            found.push(Complaint::about(PAGE, text));
        }
    }
    found
}

/// Returns the numbers and names of the promises, in lower case.
fn promises(sources: &[File]) -> impl Iterator<Item = String> {
    let store = sources.iter().find(|source| source.path == STORE);
    let lines = store.map_or("", |store| store.text.as_str()).lines();
    lines.filter_map(|line| {
        let promise = line.trim().strip_prefix("/// * **P")?.split("**").next()?;
        Some(format!("p{promise}"))
    })
}

/// Returns the names of all functions.
fn functions(sources: &[File]) -> BTreeSet<&str> {
    let words = |text| str::split(text, "fn ").skip(1);
    sources
        .iter()
        .flat_map(|source| words(source.text.as_str()))
        .filter_map(|rest| rest.split(|c: char| !(c.is_alphanumeric() || c == '_')).next())
        .collect()
}
