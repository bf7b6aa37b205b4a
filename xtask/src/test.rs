//! `cargo xtask test`: the test command.
//!
//! It needs a machine with Rust, git, a C compiler and python3, and fetches the rest ([`tools`]).
//!
//! 1. It builds all tests once. The `duly` that this build contains serves every later step.
//! 2. It runs these programs side by side ([`jobs`]):
//!    - every test binary of the workspace, and the doc tests;
//!    - some tests of the Redis store again on Valkey, if Valkey can be installed;
//!    - the examples of the HTTP reference against a server;
//!    - clients generated from the OpenAPI document, which call every operation;
//!    - the HTTP fuzzer, driven by that document;
//!    - a torture run, which kills a server with -9 for a minute;
//!    - the same with three nodes on a Redis Cluster in network namespaces. This needs root. Without it the run is
//!      skipped by name, which is a failure in CI;
//!    - the checks of the packages, made of the `duly` of this build. This needs root too.
//!
//! The last line is `N passed, N failed`, over all of them. A check that is not a test of the harness counts as one
//! test. The exit code is 1 if anything failed. A step that ends without a verdict (a test binary that aborts, a build
//! that breaks) counts as one failure. So an incomplete run never prints "0 failed".

mod affected;
mod build;
mod jobs;
mod namespaces;
mod tally;
pub(crate) mod tools;
mod valkey;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::thread;

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::process::{self, DULY_BIN, Outcome};
use crate::steps::Steps;
use affected::Affected;
use jobs::{Job, Verdict};
use tally::Tally;

/// The binary of the torture runs.
const TORTURE: &str = "duly-torture";

/// Duration and seed of the torture run of the test command.
const SHORT_TORTURE: [&str; 4] = ["--minutes", "1", "--seed", "1"];

/// The torture run of three nodes on a Redis Cluster: the faults that have found most, about once each.
const SHORT_NODES_TORTURE: [&str; 8] = [
    "--store",
    "redis-cluster",
    "--minutes",
    "0.6",
    "--seed",
    "1",
    "--faults",
    "kill-node,cut-from-store,slow-store,isolate-master-with-node,move-slots",
];

/// Programs that run at once beside one for each core: they wait for a part of the time. With more, two cores have a load
/// of 10, at which servers look dead to each other.
const MORE_JOBS: usize = 1;

/// Options of `cargo xtask test`.
#[derive(Args)]
pub(crate) struct Options {
    /// Run only what the changes since a commit can affect: the tests of the changed crates, and of those that use
    /// them. A change outside of the crates affects everything.
    #[arg(long, value_name = "COMMIT", conflicts_with = "args")]
    since: Option<String>,
    /// Run every test of the Redis store on Valkey, and nothing else.
    #[arg(long, conflicts_with_all = ["args", "since"])]
    valkey: bool,
    /// Passed to `cargo test`: `-p CRATE`, a filter, `FILTER -- --nocapture`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

/// Runs the tests and prints the summary. With arguments it runs `cargo test` with them, and nothing else.
pub(crate) fn run(options: &Options) -> Result<Outcome> {
    if !options.args.is_empty() {
        let tools = tools::found();
        let mut command = chosen(&options.args);
        return process::run(command.env(tools::TEST_TOOLS, &tools.found).envs(tools.collector));
    }
    if options.valkey {
        let mut command = process::cargo(["test", "--no-fail-fast", "-p", valkey::CRATE]);
        return process::run(command.env(valkey::SERVER_VARIABLE, valkey::find()?));
    }
    let affected = match &options.since {
        Some(commit) => Affected::since(commit)?,
        None => Affected::All,
    };
    println!("to test: {affected}");
    if affected == Affected::Crates(BTreeSet::new()) {
        println!("{}", Tally::default());
        return Ok(Outcome::Passed);
    }
    let mut steps = Steps::default();
    let mut tally = Tally::default();
    if let Err(error) = all(&affected, &mut steps, &mut tally) {
        eprintln!("error: {error:#}");
        tally.failed += 1;
    }
    if tally == Tally::default() {
        eprintln!("error: no test ran");
    }
    steps.print_times();
    println!("{tally}");
    Ok(tally.outcome())
}

/// Returns the `cargo test` of some tests. A failed test binary does not keep the others from running.
fn chosen(args: &[String]) -> Command {
    let mut command = process::cargo(["test", "--no-fail-fast"]);
    let own = args.split(|arg| arg == "--").next().unwrap_or_default();
    if !own.iter().any(|arg| arg.starts_with("-p") || arg.starts_with("--package")) {
        command.arg("--workspace");
    }
    command.args(args);
    command
}

fn all(affected: &Affected, steps: &mut Steps, tally: &mut Tally) -> Result<()> {
    steps.run("check for a C compiler", check_c_compiler)?;
    let itself = std::env::current_exe().context("the program of this command is unknown")?;
    // Installing waits for the network, and compiling for the processor.
    let installing = thread::spawn({
        let mut command = process::program(&itself);
        command.arg("tools");
        let name = "install the programs of the tests".to_owned();
        move || jobs::run(vec![Job { name, command, verdict: Verdict::ExitCode }], 1)
    });
    let built = steps.run("build the tests", build::all);
    let installed = installing.join().map_err(|_| anyhow::anyhow!("the installation broke off"))?;
    installed?.iter().for_each(|job| steps.add(&job.name, job.took, job.cpu));
    let built = built?;
    let tools = tools::found();
    tally.failed += tools.missing;

    let mut list = list(&itself, &built, &tools, tally)?;
    list.retain(|job| affected.includes(&job.name));
    let cores = thread::available_parallelism()?.get();
    for job in jobs::run(list, cores + MORE_JOBS)? {
        steps.add(&job.name, job.took, job.cpu);
        if job.tally.failed > 0 {
            println!(
                "error: {}: {}; the end of its output:\n{}",
                job.name, job.tally, job.last_lines
            );
        }
        *tally += job.tally;
    }
    Ok(())
}

/// Returns everything that runs, the longest first. Otherwise they would end one after the other, alone.
fn list(
    itself: &Path,
    built: &build::Built,
    tools: &tools::Tools,
    tally: &mut Tally,
) -> Result<Vec<Job>> {
    let torture = |args: &[&str]| {
        let mut command = process::program(&built.torture);
        command.args(args);
        Job { name: format!("torture {}", args.join(" ")), command, verdict: Verdict::ExitCode }
    };
    let own = |args: &[&str], verdict: Verdict| {
        let mut command = process::program(itself);
        command.args(args);
        Job { name: args.join(" "), command, verdict }
    };
    let mut jobs = vec![torture(&SHORT_TORTURE)];
    match namespaces::missing() {
        None => {
            jobs.push(torture(&SHORT_NODES_TORTURE));
            jobs.push(own(&["package"], Verdict::Harness));
        }
        Some(why) => {
            tally.failed += u64::from(namespaces::are_required());
            namespaces::warn_skipped("torture of several nodes, and the packages", &why);
        }
    }
    let mut tests = built.tests();
    match valkey::find() {
        Ok(server) => {
            let mut again = built.tests();
            again.retain(|job| job.name == valkey::TESTS);
            ensure!(!again.is_empty(), "cargo built no {}", valkey::TESTS);
            for job in &mut again {
                job.name += " on Valkey";
                job.command.env(valkey::SERVER_VARIABLE, &server).args(valkey::MODULES);
            }
            tests.extend(again);
        }
        Err(why) => eprintln!("SKIPPED: the tests of the Redis store on Valkey: {why:#}"),
    }
    tests
        .sort_by_key(|job| build::LONG.iter().position(|it| *it == job.name).unwrap_or(usize::MAX));
    jobs.extend(tests);
    jobs.push(own(&["clients"], Verdict::ExitCode));
    jobs.push(own(&["fuzz-http"], Verdict::ExitCode));
    jobs.push(own(&["http-docs", "--check"], Verdict::ExitCode));
    let name = "doc tests".to_owned();
    let command = process::cargo(["test", "--workspace", "--doc", "--no-fail-fast"]);
    jobs.push(Job { name, command, verdict: Verdict::Harness });
    for job in &mut jobs {
        job.command.env(DULY_BIN, &built.duly);
        job.command.env(tools::TEST_TOOLS, &tools.found).envs(tools.collector.clone());
    }
    Ok(jobs)
}

/// Checks that there is a C compiler. ring and mimalloc compile C; without a compiler cargo fails late
/// and with an unclear message. If `CC` is set, its value is not checked.
fn check_c_compiler() -> Result<()> {
    if std::env::var_os("CC").is_some() {
        return Ok(());
    }
    process::program("cc")
        .arg("--version")
        .output()
        .context("no C compiler: cannot start `cc`; install one (Debian: `gcc`) or set CC")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(args: &[&str]) -> String {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        process::shown(&chosen(&args)).split_once(' ').map(|(_, rest)| rest.to_owned()).unwrap()
    }

    #[test]
    fn arguments_reach_cargo_and_a_package_narrows_the_run() {
        for (given, expected) in [
            (&["claim"][..], "test --no-fail-fast --workspace claim"),
            (&["-p", "duly-core"], "test --no-fail-fast -p duly-core"),
            (&["-pduly-core"], "test --no-fail-fast -pduly-core"),
            (&["--package=duly-core"], "test --no-fail-fast --package=duly-core"),
            (&["--", "-p"], "test --no-fail-fast --workspace -- -p"),
        ] {
            assert_eq!(words(given), expected);
        }
    }
}
