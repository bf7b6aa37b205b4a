//! `cargo xtask planted`: plants known bugs in a copy of the sources, and expects a test to fail for each.
//!
//! 1. Each file of a folder `crates/*/tests/planted` is a patch for `git apply`. In front of the patch are a
//!    description of the bug and a line `test: …` with the arguments of `cargo test`.
//! 2. The sources are copied to `target/planted` and built there. The checkout and its build are never
//!    touched.
//! 3. The command fails for a bug that no test notices, for a patch that no longer applies, and for a
//!    patch that does not compile.
//! 4. Arguments are parts of patch names; then only these patches are planted.
//! 5. Each bug must be noticed by the rounds that CI runs, also in the nightly run, which runs more elsewhere.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::nightly::NIGHTLY;
use crate::process::{self, Outcome};

/// The folder of the patches in the folder of a crate.
const PATCHES: &str = "tests/planted";
/// The option of cargo that leaves the store unoptimized: each bug compiles it again, for one test.
const UNOPTIMIZED: &str = "profile.dev.package.duly-store-embedded.opt-level=0";
/// The prefix of the line with the arguments of `cargo test`.
const TEST: &str = "test: ";

/// Options of `cargo xtask planted`.
#[derive(Args)]
pub(crate) struct Options {
    /// Parts of patch names; all patches are planted if none is given.
    names: Vec<String>,
}

/// A bug that a test has to notice.
struct PlantedBug {
    name: String,
    path: PathBuf,
    /// Arguments of `cargo test`.
    test: Vec<String>,
}

/// The verdict on a bug that a test noticed.
const NOTICED: &str = "noticed";

/// Plants one bug after the other and prints a table.
pub(crate) fn run(options: &Options) -> Result<Outcome> {
    let is_wanted = |planted: &PlantedBug| {
        options.names.is_empty() || options.names.iter().any(|part| planted.name.contains(part))
    };
    let wanted: Vec<PlantedBug> = all()?.into_iter().filter(is_wanted).collect();
    if wanted.is_empty() {
        bail!("no patch in crates/*/{PATCHES} has such a name");
    }
    let copy = process::root().join("target/planted");
    let mut rows = Vec::new();
    let mut outcome = Outcome::Passed;
    for planted in &wanted {
        let began = Instant::now();
        println!("==> {}: cargo test {}", planted.name, planted.test.join(" "));
        let verdict = plant(planted, &copy)?;
        if verdict != NOTICED {
            outcome = Outcome::Failed;
        }
        println!("<== {verdict}");
        rows.push((verdict, began.elapsed().as_secs(), planted));
    }
    println!();
    for (verdict, seconds, PlantedBug { name, test, .. }) in rows {
        println!("{verdict:<16} {seconds:>4} s  {name:<28} {}", test.join(" "));
    }
    Ok(outcome)
}

/// Reads the patches, sorted by name.
fn all() -> Result<Vec<PlantedBug>> {
    let mut found = Vec::new();
    for crate_dir in fs::read_dir(process::root().join("crates")).context("crates")? {
        let folder = crate_dir?.path().join(PATCHES);
        if !folder.exists() {
            continue;
        }
        for entry in fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            let test =
                test_of(&text).with_context(|| format!("{}: no `{TEST}`", path.display()))?;
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            found.push(PlantedBug { name, path, test });
        }
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(found)
}

/// Returns the arguments of `cargo test` in front of a patch.
fn test_of(text: &str) -> Option<Vec<String>> {
    let mut front = text.lines().take_while(|line| !line.starts_with("--- "));
    let words = front.find_map(|line| line.strip_prefix(TEST))?;
    Some(words.split_whitespace().map(str::to_owned).collect())
}

/// Plants a bug, and returns the verdict.
fn plant(planted: &PlantedBug, copy: &Path) -> Result<&'static str> {
    copy_sources(copy)?;
    if !git_apply(copy).arg(&planted.path).status()?.success() {
        return Ok("DOES NOT APPLY");
    }
    let test = || {
        let mut command = process::cargo(["test", "--config", UNOPTIMIZED]);
        command.args(&planted.test).current_dir(copy);
        command.env_remove("CARGO_TARGET_DIR").env_remove(NIGHTLY);
        command
    };
    if process::run(test().arg("--no-run"))? == Outcome::Failed {
        return Ok("DOES NOT COMPILE");
    }
    let outcome = process::run(test().stdout(Stdio::null()).stderr(Stdio::null()))?;
    Ok(if outcome == Outcome::Passed { "NOT NOTICED" } else { NOTICED })
}

/// Returns `git apply` for a folder, set to ignore an enclosing repository: with one it would skip all
/// files.
fn git_apply(dir: &Path) -> Command {
    let mut command = process::program("git");
    command.arg("apply").current_dir(dir);
    command.env("GIT_CEILING_DIRECTORIES", dir.parent().unwrap_or(dir));
    command
}

/// Updates the copy from the checkout. Unchanged files keep their time, so that they are not built
/// again.
fn copy_sources(copy: &Path) -> Result<()> {
    let list = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    for name in process::git(&list)?.split_terminator('\0') {
        let (from, to) = (process::root().join(name), copy.join(name));
        let bytes = match fs::read(&from) {
            // The file was removed, and the removal is not committed yet.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            read => read.with_context(|| name.to_owned())?,
        };
        if fs::read(&to).is_ok_and(|there| there == bytes) {
            continue;
        }
        fs::create_dir_all(to.parent().context("a file is in a folder")?)?;
        fs::write(&to, bytes).with_context(|| to.display().to_string())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_patch_applies_and_names_a_test_that_is_there() {
        let mut stale = Vec::new();
        for planted in all().unwrap() {
            let check = git_apply(process::root()).arg("--check").arg(&planted.path).status();
            if !check.unwrap().success() {
                stale.push(planted.name.clone());
            }
            // The folder of the crate.
            let sources = planted.path.ancestors().nth(3).unwrap();
            let test = planted.test.last().unwrap().rsplit("::").next().unwrap();
            let grep = process::program("git")
                .args(["grep", "--untracked", "--quiet", "--fixed-strings"])
                .arg(format!("fn {test}("))
                .arg(sources)
                .status();
            assert!(grep.unwrap().success(), "{}: there is no test {test}", planted.name);
        }
        assert!(stale.is_empty(), "these patches do not apply any more: {stale:?}");
    }

    #[test]
    fn the_test_stands_in_front_of_the_patch() {
        let text = "A bug.\ntest: -p duly-core --lib a\n\n--- a/x\n+++ b/x\n-test: no\n";
        assert_eq!(test_of(text).unwrap(), ["-p", "duly-core", "--lib", "a"]);
        assert_eq!(test_of("A bug.\n--- a/x\ntest: no\n"), None);
    }
}
