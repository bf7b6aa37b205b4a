//! The binaries of other versions.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::folder;
use crate::package::Release;
use crate::process;

/// The examples of the Rust client. Each ends by itself.
pub(super) const EXAMPLES: [&str; 3] = ["missing_event", "order_timeout", "reminder"];

/// The binaries of a version.
#[derive(Debug, Clone)]
pub(super) struct Build {
    pub(super) name: String,
    pub(super) checkout: PathBuf,
    pub(super) duly: PathBuf,
}

impl Build {
    /// Builds a tag or commit in a worktree of its own. A later run finds it built.
    pub(super) fn of(revision: &str) -> Result<Self> {
        let worktree = process::root().join(folder(revision));
        if !worktree.exists() {
            let path = worktree.display().to_string();
            process::git(&["worktree", "prune"])?;
            process::git(&["worktree", "add", "--detach", &path, revision])
                .with_context(|| format!("this clone has no {revision}: fetch its history"))?;
        }
        let duly = worktree.join("target/release/duly");
        let build = Self { name: revision.to_owned(), checkout: worktree, duly };
        build.cargo_build(&["--package", "duly"])?;
        Ok(build)
    }

    /// Builds the examples of the Rust client.
    pub(super) fn build_examples(&self) -> Result<()> {
        self.cargo_build(&["--package", "duly-client", "--examples"])
    }

    /// Returns a command of this build.
    pub(super) fn command(&self) -> Command {
        without_settings(&self.duly)
    }

    /// Returns a command that runs an example.
    pub(super) fn example(&self, name: &str) -> Command {
        without_settings(&self.checkout.join("target/release/examples").join(name))
    }

    fn cargo_build(&self, args: &[&str]) -> Result<()> {
        let mut build = process::cargo(["build", "--release", "--locked"]);
        build.args(args).current_dir(&self.checkout);
        process::run_or_fail(build.env("CARGO_TARGET_DIR", self.checkout.join("target")))
    }
}

/// Returns a command without the settings of this machine.
fn without_settings(program: &Path) -> Command {
    let mut command = process::program(program);
    for (variable, _) in std::env::vars_os() {
        if variable.to_str().is_some_and(|name| name.starts_with("DULY_")) {
            command.env_remove(variable);
        }
    }
    command
}

/// Returns the newest release tag of another version than this one.
pub(super) fn previous_release() -> Result<Option<String>> {
    let this = format!("v{}", Release::read()?.version);
    let tags = process::git(&["tag", "--list", "v*", "--sort=-version:refname"])?;
    Ok(tags.lines().find(|tag| **tag != this).map(str::to_owned))
}

/// Returns a program that starts one binary and then the other, in turns.
pub(super) fn alternating(one: &Path, two: &Path) -> Result<PathBuf> {
    let program = process::root().join(folder("alternating"));
    fs::create_dir_all(program.parent().context("it has a folder")?)?;
    let script = format!(
        "#!/bin/sh\n\
         exec 9>\"$0.lock\"\n\
         flock 9\n\
         count=$(($(cat \"$0.count\" 2>/dev/null || echo 0) + 1))\n\
         echo $count >\"$0.count\"\n\
         exec 9>&-\n\
         if [ $((count % 2)) = 0 ]; then exec '{}' \"$@\"; else exec '{}' \"$@\"; fi\n",
        one.display(),
        two.display()
    );
    fs::write(&program, script)?;
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
    Ok(program)
}
