//! `cargo xtask http-docs`: generates the table of codes and the reference part of
//! `docs/reference/http.md`.
//!
//! 1. The text between two markers is generated from `openapi.json`, and the reference part also from the
//!    examples beside it. The rest of the page is written by hand. A test compares the generated parts
//!    with their sources.
//! 2. The command first runs the examples against a built server. If a response differs, it records that
//!    response again. With `--check` it records nothing: so the test command calls it.

mod codes;
mod examples;
mod json;
mod page;
mod schema;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::Value;

use crate::process::{self, Outcome};
use crate::server::{Request, Response, Server};
use examples::{Example, ExamplesRun};

/// The page.
const PAGE: &str = "docs/reference/http.md";
/// The examples.
const EXAMPLES: &str = "docs/reference/http-examples.txt";
/// The OpenAPI document.
const DOCUMENT: &str = "docs/reference/openapi.json";
/// The name of the reference part in its markers.
const ROUTES: &str = "generated";
/// The name of the table of codes in its markers.
const CODES: &str = "codes, generated";
/// The backup directory that the examples show.
const BACKUPS_SHOWN: &str = "/var/backups/duly";

/// Options of `cargo xtask http-docs`.
#[derive(Args)]
pub(crate) struct Options {
    /// Only run the examples, and fail if a response differs.
    #[arg(long)]
    check: bool,
}

/// Records the examples whose responses differ, and writes the page.
pub(crate) fn run(options: &Options) -> Result<Outcome> {
    if options.check {
        return check(&process::build_duly()?);
    }
    let text = read(EXAMPLES)?;
    let ExamplesRun { examples, mismatches } = run_examples(&process::build_duly()?, &text)?;
    if mismatches.is_empty() {
        println!("{EXAMPLES} is up to date");
    } else {
        mismatches.iter().for_each(|mismatch| println!("recorded again: {mismatch}"));
        let preface = text.split("\n=== ").next().unwrap_or_default();
        write(EXAMPLES, &examples::format_file(preface, &examples))?;
    }
    let page = read(PAGE)?;
    let made = generated(&page, &read(DOCUMENT)?, &read(EXAMPLES)?)?;
    if made == page {
        println!("{PAGE} is up to date");
    } else {
        write(PAGE, &made)?;
    }
    Ok(Outcome::Passed)
}

/// Runs the examples against a fresh server of this binary. Prints each one whose response differs.
fn check(duly: &Path) -> Result<Outcome> {
    let ExamplesRun { examples, mismatches } = run_examples(duly, &read(EXAMPLES)?)?;
    if mismatches.is_empty() {
        println!("{} examples match", examples.len());
        return Ok(Outcome::Passed);
    }
    mismatches.iter().for_each(|mismatch| eprintln!("error: example {mismatch}"));
    eprintln!("record them again with: cargo xtask http-docs");
    Ok(Outcome::Failed)
}

/// Runs the examples on an empty server.
fn run_examples(duly: &Path, text: &str) -> Result<ExamplesRun> {
    let directory = process::root().join("target/http-docs");
    let backups = directory.join("backups");
    fs::create_dir_all(&directory).context("cannot make target/http-docs")?;
    let server = Server::start(duly, &directory, Some(&backups))?;
    let backups = backups.to_str().context("target/ is no UTF-8")?;
    let run = examples::run(&examples::parse(text)?, |request| {
        let body = request.body.replace(BACKUPS_SHOWN, backups);
        let response = server.call(&Request { body: &body, ..*request })?;
        Ok(Response { body: response.body.replace(backups, BACKUPS_SHOWN), ..response })
    })?;
    server.stop()?;
    Ok(run)
}

/// Returns the page with newly generated parts.
fn generated(page: &str, document: &str, examples: &str) -> Result<String> {
    let document: Value = serde_json::from_str(document).context("openapi.json is no JSON")?;
    let examples: Vec<Example> = examples::parse(examples)?;
    let page = with_part(page, CODES, &codes::table(&document)?)?;
    with_part(&page, ROUTES, &page::routes(&document, &examples)?)
}

/// Returns the page with this text between the markers of a part.
fn with_part(page: &str, name: &str, text: &str) -> Result<String> {
    let marker = |place| format!("<!-- {name} by `cargo xtask http-docs`: {place} -->\n");
    let (begin, end) = (marker("begin"), marker("end"));
    let (before, rest) = page.split_once(&begin).with_context(|| format!("no marker {begin}"))?;
    let (_, after) = rest.split_once(&end).with_context(|| format!("no marker {end}"))?;
    Ok(format!("{before}{begin}\n{text}\n{end}{after}"))
}

fn read(file: &str) -> Result<String> {
    fs::read_to_string(process::root().join(file)).with_context(|| format!("cannot read {file}"))
}

fn write(file: &str, text: &str) -> Result<()> {
    println!("{file} written");
    fs::write(process::root().join(file), text).with_context(|| format!("cannot write {file}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the first word of the second column: `yes`, `no`, `only` or `line`.
    fn verdict(row: &str) -> &str {
        let cell = row.split('|').nth(2).unwrap_or_default();
        cell.split([' ', ',']).find(|word| !word.is_empty()).unwrap_or_default()
    }

    #[test]
    fn the_http_reference_is_up_to_date() {
        let page = read(PAGE).unwrap();
        let made = generated(&page, &read(DOCUMENT).unwrap(), &read(EXAMPLES).unwrap()).unwrap();
        assert!(made == page, "{PAGE} is stale: run `cargo xtask http-docs`");
    }

    #[test]
    fn every_call_is_repeated_or_not_by_one_row() {
        let page = read(PAGE).unwrap();
        let (_, rest) = page.split_once("| call | repeated in doubt? | because |\n").unwrap();
        let table = rest.split_once("\n\n").unwrap().0;
        let document: Value = serde_json::from_str(&read(DOCUMENT).unwrap()).unwrap();
        for (path, methods) in page::object(&document["paths"]) {
            for (method, operation) in page::object(methods) {
                let id = operation["operationId"].as_str().unwrap();
                let names = |row: &&str| {
                    row.split('|').nth(1).is_some_and(|cell| cell.contains(&format!("`{id}`")))
                };
                let verdicts: Vec<_> = table.lines().filter(names).map(verdict).collect();
                let expected: &[&str] = match operation["x-duly-repeat"].as_str() {
                    Some("yes") if method == "get" => &[],
                    // The service's own paths have no row: they are read.
                    None if method == "get" => &[],
                    Some("yes") => &["yes"],
                    Some("no") => &["no"],
                    Some("if_id" | "if_revision" | "without_lease") => &["yes", "no"],
                    Some("if_items") => &["yes", "no", "line"],
                    Some("if_dry_run") => &["only"],
                    other => panic!("{path}: {other:?}"),
                };
                assert_eq!(verdicts, expected, "{path}: {id}");
            }
        }
    }
}
