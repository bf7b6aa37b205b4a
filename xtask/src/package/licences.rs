//! The licences of the crates that a binary contains, and of the libraries below them. Most ask for their text beside
//! the binary.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::process;
use crate::static_binary;

/// Beginnings of the names of files with licences, in lower case.
const NAMES: [&str; 4] = ["license", "licence", "copying", "notice"];

/// The libraries that the compiler adds.
const LIBRARIES: &str = "\
Duly contains the standard library of Rust (MIT OR Apache-2.0, Copyright The Rust Project Contributors). The static
binary contains musl libc (MIT, Copyright 2005-2020 Rich Felker, et al.). The text of MIT:

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated
documentation files (the \"Software\"), to deal in the Software without restriction, including without limitation the
rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit
persons to whom the Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the
Software.

THE SOFTWARE IS PROVIDED \"AS IS\", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE
WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR
COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR
OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
";

/// Returns the name, the licence and its text for each crate of the binary `duly`. A text that several crates
/// share appears once.
pub(super) fn of_dependencies() -> Result<String> {
    let target = static_binary::TARGET;
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
        let mut licences = texts(folder)?;
        if licences.is_empty() {
            licences.push("The crate has no text of its licence.".to_owned());
        }
        for licence in licences {
            crates_by_text.entry(licence).or_default().insert(named.clone());
        }
    }
    let mut out = format!("{LIBRARIES}\nDuly contains these crates.\n");
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
