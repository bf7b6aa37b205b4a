//! The licences of the crates that a binary contains. Most ask for their text beside the binary.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::process;

/// Beginnings of the names of files with licences, in lower case.
const NAMES: [&str; 4] = ["license", "licence", "copying", "notice"];

/// Returns the name, the licence and its text for each crate of the binary `duly`. A text that several crates
/// share appears once.
pub(super) fn of_dependencies() -> Result<String> {
    let target = process::STATIC_TARGET;
    let metadata = ["metadata", "--format-version", "1", "--locked", "--filter-platform", target];
    let metadata: Value = serde_json::from_str(&process::output(&mut process::cargo(metadata))?)?;
    let tree = ["tree", "--package", "duly", "--locked", "--edges", "normal", "--target", target];
    let mut tree = process::cargo(tree);
    let tree = process::output(tree.args(["--prefix", "none", "--format", "{p}"]))?;
    let used: BTreeSet<_> = tree
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ');
            Some((words.next()?, words.next()?.trim_start_matches('v')))
        })
        .collect();
    let mut crates_by_text: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for package in metadata["packages"].as_array().context("no packages")? {
        let text = |key: &str| package[key].as_str().unwrap_or_default();
        let is_own = package["source"].is_null();
        if is_own || !used.contains(&(text("name"), text("version"))) {
            continue;
        }
        let named = format!("{} {} ({})", text("name"), text("version"), text("license"));
        let folder = Path::new(text("manifest_path")).parent().context("no folder")?;
        for licence in texts(folder)? {
            crates_by_text.entry(licence).or_default().insert(named.clone());
        }
    }
    let mut out = "Duly contains these crates.\n".to_owned();
    for (licence, crates) in crates_by_text {
        let crates: Vec<_> = crates.into_iter().collect();
        let line = "-".repeat(80);
        out.push_str(&format!("\n{line}\n{}\n\n{}\n", crates.join("\n"), licence.trim_end()));
    }
    Ok(out)
}

/// Returns the texts of the licences in the folder of a crate.
fn texts(folder: &Path) -> Result<Vec<String>> {
    let mut texts = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("no {}", folder.display()))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_lowercase();
        if entry.file_type()?.is_file() && NAMES.iter().any(|start| name.starts_with(start)) {
            texts.push(String::from_utf8_lossy(&fs::read(entry.path())?).into_owned());
        }
    }
    texts.sort();
    Ok(texts)
}
