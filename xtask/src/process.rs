//! Starts cargo and other programs from the root of the checkout.
//!
//! Every command of this crate starts its children through this module. Two rules hold for each child:
//!
//! 1. Standard input is closed, so that nothing waits for a keyboard, which CI does not have.
//! 2. The variables that `cargo run` set for this process are removed. Some build scripts watch them
//!    (ring's does) and would run again at each change between `cargo xtask …` and plain cargo.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// The variable with the path of the `duly` binary, for tests and tools.
pub(crate) const DULY_BIN: &str = "DULY_BIN";

/// The verdict of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Outcome {
    /// No fault was found.
    Passed,
    /// A fault was found; the reason has been printed.
    Failed,
}

/// A cargo build profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Profile {
    /// The profile of plain `cargo build`.
    Dev,
    /// The profile that is measured.
    Release,
}

/// A test among the targets makes cargo choose the features that the dependencies have in tests. Without it, cargo
/// compiles half of them a second time. This test is small.
const FEATURES_OF_TESTS: [&str; 2] = ["--test", "memory"];

/// Returns the root of the checkout.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is a folder of the checkout")
}

/// Returns a command that runs at the root under the two rules above.
pub(crate) fn program(name: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(name);
    command.current_dir(root()).stdin(Stdio::null());
    for (variable, _) in std::env::vars_os() {
        if variable.to_str().is_some_and(set_by_cargo_run) {
            command.env_remove(variable);
        }
    }
    command
}

fn set_by_cargo_run(variable: &str) -> bool {
    variable.starts_with("CARGO_PKG_")
        || variable.starts_with("CARGO_MANIFEST_")
        || matches!(variable, "CARGO_BIN_NAME" | "CARGO_CRATE_NAME" | "CARGO_PRIMARY_PACKAGE")
}

/// Returns `cargo` with these arguments.
pub(crate) fn cargo<S: AsRef<OsStr>>(args: impl IntoIterator<Item = S>) -> Command {
    let mut command = program(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args);
    command
}

/// Returns the command as it is typed in a shell, for messages.
pub(crate) fn shown(command: &Command) -> String {
    let name = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    std::iter::once(name)
        .chain(command.get_args())
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Runs a command to its end, with its output passed through.
pub(crate) fn run(command: &mut Command) -> Result<Outcome> {
    let status = command.status().with_context(|| format!("cannot start `{}`", shown(command)))?;
    Ok(if status.success() { Outcome::Passed } else { Outcome::Failed })
}

/// Runs a command to its end. A failure is an error.
pub(crate) fn run_or_fail(command: &mut Command) -> Result<()> {
    ensure!(run(command)? == Outcome::Passed, "`{}` failed", shown(command));
    Ok(())
}

/// Runs a command and returns its output. A failure is an error.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot start `{}`", shown(command)))?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    let why = if stderr.is_empty() { "see above" } else { stderr.trim() };
    ensure!(output.status.success(), "`{}` failed: {why}", shown(command));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs git and returns its output.
pub(crate) fn git(arguments: &[&str]) -> Result<String> {
    output(program("git").args(arguments))
}

/// Returns the processor time of all programs that this one has waited for, and of those that they waited for; zero
/// where the system does not tell (only Linux does here).
pub(crate) fn cpu_of_children() -> Duration {
    // `man 5 proc_pid_stat`: behind the name in parentheses, field 3 comes first; `cutime` and `cstime` are 16 and 17.
    let ticks = || {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        let (_, fields) = stat.rsplit_once(") ")?;
        fields.split(' ').skip(13).take(2).map(|it| it.parse::<u64>().ok()).sum::<Option<u64>>()
    };
    // Linux shows a hundred ticks a second on each processor.
    Duration::from_millis(ticks().unwrap_or(0) * 10)
}

/// Returns the `duly` that [`DULY_BIN`] names, or else builds it.
pub(crate) fn build_duly() -> Result<PathBuf> {
    if let Some(built) = std::env::var_os(DULY_BIN) {
        println!("{DULY_BIN} names {}", Path::new(&built).display());
        return Ok(built.into());
    }
    build_binaries(Profile::Dev, &["duly"])?.pop().context("cargo built no binary")
}

/// Builds binaries of the workspace, and returns their paths in the order of `names`.
///
/// One cargo call builds all of them for the whole workspace. So they share their dependencies.
pub(crate) fn build_binaries(profile: Profile, names: &[&str]) -> Result<Vec<PathBuf>> {
    let mut command = cargo(["build", "--workspace", "--message-format=json-render-diagnostics"]);
    match profile {
        Profile::Dev => command.args(FEATURES_OF_TESTS),
        Profile::Release => command.arg("--release"),
    };
    for name in names {
        command.args(["--bin", name]);
    }
    let messages = output(command.stderr(Stdio::inherit()))?;
    names
        .iter()
        .map(|name| {
            executable(&messages, name)
                .with_context(|| format!("cargo built `{name}` but did not report its path"))
        })
        .collect()
}

/// Installs the standard library of a target, if rustup manages the tool chain. Otherwise the build says what is
/// missing.
pub(crate) fn install_target(target: &str) -> Result<()> {
    let installed = output(program("rustup").args(["target", "list", "--installed"]));
    match installed {
        Ok(installed) if !installed.lines().any(|line| line == target) => {
            run_or_fail(program("rustup").args(["target", "add", target]))
        }
        _ => Ok(()),
    }
}

/// Finds a binary in cargo's messages.
pub(crate) fn executable(messages: &str, name: &str) -> Option<PathBuf> {
    executables(messages, |message| message["target"]["name"] == name).next()
}

/// Returns the executables of the wanted messages. Cargo prints one JSON object per line.
pub(crate) fn executables(
    messages: &str,
    is_wanted: impl Fn(&Value) -> bool,
) -> impl Iterator<Item = PathBuf> {
    messages.lines().filter_map(move |line| {
        let message: Value = serde_json::from_str(line).ok()?;
        let path = message["executable"].as_str()?;
        is_wanted(&message).then(|| PathBuf::from(path))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_binary_among_cargos_messages() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","target":{"name":"duly"},"executable":null}"#,
            "\nnot json\n",
            r#"{"reason":"compiler-artifact","target":{"name":"other"},"executable":"/t/other"}"#,
            "\n",
            r#"{"reason":"compiler-artifact","target":{"name":"duly"},"executable":"/t/duly"}"#,
        );
        assert_eq!(executable(messages, "duly"), Some(PathBuf::from("/t/duly")));
        assert_eq!(executable(messages, "absent"), None);
    }

    #[test]
    fn only_cargo_runs_own_variables_are_removed() {
        for (variable, taken) in [
            ("CARGO_PKG_NAME", true),
            ("CARGO_MANIFEST_DIR", true),
            ("CARGO_MANIFEST_LINKS", true),
            ("CARGO_BIN_NAME", true),
            ("CARGO", false),
            ("CARGO_HOME", false),
            ("CARGO_TARGET_DIR", false),
            ("CARGO_INCREMENTAL", false),
            ("PATH", false),
        ] {
            assert_eq!(set_by_cargo_run(variable), taken, "{variable}");
        }
    }

    #[test]
    fn a_command_is_shown_without_its_folder() {
        let mut command = Command::new("/somewhere/bin/cargo");
        command.args(["test", "--workspace"]);
        assert_eq!(shown(&command), "cargo test --workspace");
    }
}
