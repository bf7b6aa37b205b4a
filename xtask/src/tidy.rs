//! `cargo xtask tidy`: checks the project's rules that the compiler does not check.
//!
//! Each rule is a pure function from paths and texts to complaints. So it is tested with planted
//! violations as well as on this checkout. A test here also checks the checkout itself, so a plain
//! `cargo test` reports the same complaints as the command.
//!
//! - [`layers`]: allowed dependencies between crates;
//! - [`modules`]: no cycle of imports between the modules of a crate;
//! - [`manifests`]: versions are in the root manifest only;
//! - [`names`]: no file or folder with a meaningless name;
//! - [`marks`]: no work left for later, no test switched off;
//! - [`client_tls`]: TLS connections to servers have a bound on certificates;
//! - [`programs`]: tests of the binary start programs without the variables of the test command;
//! - [`docs`]: every module states its purpose;
//! - [`sizes`]: no file that is too long;
//! - [`links`]: no broken link between pages;
//! - [`language`]: comments, names and pages in plain language;
//! - [`commits`]: a commit has a short subject, and a body with the reason;
//! - [`contract`]: a new snapshot of the public interface comes with a changelog entry;
//! - [`promises`]: each promise to users names tests that show it, and they exist.

mod client_tls;
mod commits;
mod docs;
mod language;
mod layers;
mod lines;
mod links;
mod log_rows;
mod manifests;
mod marks;
mod modules;
mod names;
mod programs;
mod promises;
mod sizes;
#[cfg(test)]
mod tests;
mod tree;

use std::fmt;

use anyhow::Result;
use clap::Args;

use crate::contract;
use crate::process::{self, Outcome};
use tree::Tree;

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Complaint {
    /// The file, from the root, with forward slashes.
    path: String,
    /// The line number, if the complaint is about one place.
    line: Option<usize>,
    /// The fault, and its remedy.
    text: String,
}

impl Complaint {
    fn about(path: &str, text: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: None, text: text.into() }
    }

    fn at(path: &str, line: usize, text: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: Some(line), text: text.into() }
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.path, self.text),
            None => write!(f, "{}: {}", self.path, self.text),
        }
    }
}

/// Options of `cargo xtask tidy`.
#[derive(Args)]
pub(crate) struct Options {
    /// Print the lines of code of each crate, without comments and tests, and check nothing.
    #[arg(long)]
    lines: bool,
}

/// Checks the checkout and prints every complaint.
pub(crate) fn run(options: &Options) -> Result<Outcome> {
    let tree = Tree::read(process::root())?;
    if options.lines {
        print!("{}", lines::table(&[tree.sources, tree.scripts].concat()));
        return Ok(Outcome::Passed);
    }
    let mut complaints = complaints(&tree)?;
    complaints.extend(
        contract::missing_changelog_entry()?.map(|text| Complaint::about("contract", text)),
    );
    complaints.extend(commits::check()?);
    complaints.extend(names::check_root()?);
    complaints.extend(modules::check_list()?);
    for complaint in &complaints {
        println!("{complaint}");
    }
    println!(
        "tidy: {} source files, {} manifests, {} pages, {} complaints",
        tree.sources.len(),
        tree.manifests.len(),
        tree.pages.len(),
        complaints.len()
    );
    Ok(if complaints.is_empty() { Outcome::Passed } else { Outcome::Failed })
}

/// Returns all complaints, in the order of the rules.
fn complaints(tree: &Tree) -> Result<Vec<Complaint>> {
    let mut found = Vec::new();
    for manifest in &tree.manifests {
        let table = manifests::parse(manifest)?;
        found.extend(layers::check(manifest, &table));
        found.extend(manifests::check(manifest, &table));
    }
    for source in &tree.sources {
        found.extend(names::check(source));
        found.extend(client_tls::check(source));
        found.extend(programs::check(source));
        found.extend(marks::check(source));
        found.extend(docs::check(source));
    }
    found.extend(modules::check(&tree.sources, modules::CYCLES));
    found.extend(sizes::check(&tree.sources, sizes::LONG_FILES));
    found.extend(links::check(&tree.pages, &tree.paths));
    found.extend(language::check(&tree.sources, &tree.pages));
    found.extend(log_rows::check(&tree.pages, &tree.sources));
    found.extend(promises::check(&tree.pages, &tree.sources));
    Ok(found)
}
