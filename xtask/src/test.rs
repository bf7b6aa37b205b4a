//! `cargo xtask test`: the test command.
//!
//! It needs a machine with Rust, git, a C compiler and python3, and fetches the rest: cargo fetches the
//! crates, pip the HTTP fuzzer, pip and npm the client generators, apt-get the programs that tests of
//! the guide start. The servers under test are built here.
//!
//! 1. It builds `duly`, and passes its path to the end-to-end tests (`DULY_BIN`).
//! 2. It runs every test of the workspace, doc tests included.
//! 3. It runs the tests of the Redis store again on Valkey, if Valkey can be installed.
//! 4. It runs the examples of the HTTP reference against a server.
//! 5. It generates clients from the OpenAPI document, and calls every operation with each.
//! 6. It fuzzes the HTTP interface by its OpenAPI document.
//! 7. It kills a static release build with -9 for a minute.
//! 8. It does the same to three nodes on a Redis Cluster in network namespaces. This needs root. Without
//!    it the run is skipped by name, which is a failure in CI.
//! 9. It makes packages of these builds, and checks them with the tools of their users. This needs root too.
//!
//! The last line is `N passed, N failed`, over all test binaries, with each of the steps 4 to 8, and each check
//! of step 9, as one more test. The exit code is 1 if anything failed.
//!
//! A step that ends without a verdict (a test binary that aborts, a build that breaks) counts as one
//! failure. So an incomplete run never prints "0 failed".

mod namespaces;
mod tally;
mod tools;
mod valkey;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;

use crate::clients;
use crate::fuzz_http;
use crate::http_docs;
use crate::package;
use crate::process::{self, DULY_BIN, Outcome, Profile};
use crate::steps::Steps;
use crate::torture;
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

/// Options of the HTTP fuzzing of the test command.
const SHORT_FUZZ: fuzz_http::Options = fuzz_http::Options { seed: 1, examples: 20, seconds: None };

/// Silence of the output after which the command checks whether cargo has ended.
const QUIET: Duration = Duration::from_millis(500);

/// Options of `cargo xtask test`.
#[derive(Args)]
pub(crate) struct Options {
    /// Passed to `cargo test`: `-p CRATE`, a filter, `FILTER -- --nocapture`.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

/// Runs the tests and prints the summary.
pub(crate) fn run(options: &Options) -> Result<Outcome> {
    let mut steps = Steps::default();
    let mut tally = Tally::default();
    if let Err(error) = all(&options.args, &mut steps, &mut tally) {
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

fn all(args: &[String], steps: &mut Steps, tally: &mut Tally) -> Result<()> {
    steps.run("check for a C compiler", check_c_compiler)?;
    let tools = steps.run("install the programs of the guide", || Ok(tools::install()))?;
    tally.failed += tools.missing;
    let duly = &steps.run("build duly", process::build_duly)?;
    let mut command = tests(args, duly);
    command.env(tools::TEST_TOOLS, &tools.found).envs(tools.collector.clone());
    steps.run(&process::shown(&command), || count(&mut command, tally, &mut io::stdout()))?;

    let left_out = if !args.is_empty() {
        Some("left out, because only some tests were requested")
    } else if tally.failed > 0 {
        Some("NOT RUN, because tests failed")
    } else {
        None
    };
    let valkey = "the tests of the Redis store on Valkey".to_owned();
    let page = "the examples of the HTTP reference".to_owned();
    let fuzz_http::Options { seed, examples, .. } = SHORT_FUZZ;
    let fuzz = format!("fuzz-http --seed {seed} --examples {examples}");
    let torture = format!("torture {}", SHORT_TORTURE.join(" "));
    let nodes_torture = format!("torture {}", SHORT_NODES_TORTURE.join(" "));
    let packages = "the packages".to_owned();
    let clients = clients::LANGUAGES
        .each_ref()
        .map(|language| (format!("the generated {} client", language.name), language));
    if let Some(why) = left_out {
        let clients = clients.iter().map(|(step, _)| step);
        for step in [&valkey, &page].into_iter().chain(clients).chain([
            &fuzz,
            &torture,
            &nodes_torture,
            &packages,
        ]) {
            println!("==> {step}: {why}");
        }
        return Ok(());
    }
    match steps.run("find Valkey", || Ok(valkey::find()))? {
        Ok(server) => {
            steps.run(&valkey, || {
                for mut command in valkey::tests()? {
                    command.env(valkey::SERVER_VARIABLE, &server);
                    command.env(tools::TEST_TOOLS, &tools.found);
                    count(&mut command, tally, &mut io::stdout())?;
                }
                Ok(())
            })?;
        }
        Err(why) => eprintln!("SKIPPED: {valkey}: {why:#}"),
    }
    tally.add(steps.run(&page, || http_docs::check(duly))?);
    for (step, language) in clients {
        tally.add(steps.run(&step, || language.check(duly))?);
    }
    tally.add(steps.run(&fuzz, || fuzz_http::fuzz(&SHORT_FUZZ, duly))?);
    tally.add(
        steps.run(&torture, || torture::run(Profile::Static, &SHORT_TORTURE.map(str::to_owned)))?,
    );
    match namespaces::missing() {
        None => tally.add(steps.run(&nodes_torture, || {
            process::run_testkit(
                Profile::Static,
                "duly-torture",
                &SHORT_NODES_TORTURE.map(str::to_owned),
            )
        })?),
        Some(why) => {
            tally.failed += u64::from(namespaces::are_required());
            namespaces::warn_skipped(&nodes_torture, &why);
            namespaces::warn_skipped(&packages, &why);
            return Ok(());
        }
    }
    let failed = check_packages(duly, steps)?;
    tally.failed += failed;
    tally.passed += package::check::CHECKS - failed;
    Ok(())
}

/// Makes and checks the packages. Returns the number of failed checks.
fn check_packages(duly: &Path, steps: &mut Steps) -> Result<u64> {
    // The same call as that of the torture runs, so nothing is built again: other binaries have other features.
    let built = process::build_binaries(Profile::Static, &["duly", TORTURE])?;
    let r#static = built.into_iter().next().context("cargo built no static binary")?;
    let binaries =
        package::check::Binaries { cpu: package::Cpu::own()?, dynamic: duly.to_owned(), r#static };
    Ok(package::check::check(&binaries, steps))
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

/// Returns the `cargo test` to run. A failed test binary does not keep the others from running.
fn tests(args: &[String], duly: &Path) -> Command {
    let mut command = process::cargo(["test", "--no-fail-fast"]);
    let own = args.split(|arg| arg == "--").next().unwrap_or_default();
    if !own.iter().any(|arg| arg.starts_with("-p") || arg.starts_with("--package")) {
        command.arg("--workspace");
    }
    command.args(args).env(DULY_BIN, duly);
    command
}

/// Runs `cargo test`, passes its output through, and adds up its verdicts.
fn count(command: &mut Command, tally: &mut Tally, out: &mut impl Write) -> Result<()> {
    let failed_before = tally.failed;
    let mut child = command.stdout(Stdio::piped()).spawn().context("cannot start cargo")?;
    let pipe = child.stdout.take().context("the child has no standard output")?;
    let lines = read_lines(pipe);
    loop {
        match lines.recv_timeout(QUIET) {
            Ok(line) => {
                let line = line?;
                out.write_all(&line)?;
                out.flush()?;
                tally.read(&String::from_utf8_lossy(&line));
            }
            Err(RecvTimeoutError::Timeout) if child.try_wait()?.is_some() => {
                eprintln!("warning: a test left a process behind that still holds the output");
                break;
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let status = child.wait()?;
    if !status.success() && tally.failed == failed_before {
        tally.failed += 1;
    }
    Ok(())
}

/// Reads lines on a thread of its own. If a failed test leaves a server running, the server keeps the
/// pipe open, and the end of the output never comes.
fn read_lines(pipe: impl Read + Send + 'static) -> Receiver<io::Result<Vec<u8>>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(pipe).split(b'\n') {
            let line = line.map(|mut line| {
                line.push(b'\n');
                line
            });
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(args: &[&str]) -> String {
        let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
        process::shown(&tests(&args, Path::new("/t/duly")))
            .split_once(' ')
            .map(|(_, rest)| rest.to_owned())
            .unwrap()
    }

    #[test]
    fn arguments_reach_cargo_and_a_package_narrows_the_run() {
        for (given, expected) in [
            (&[][..], "test --no-fail-fast --workspace"),
            (&["claim"], "test --no-fail-fast --workspace claim"),
            (&["-p", "duly-core"], "test --no-fail-fast -p duly-core"),
            (&["-pduly-core"], "test --no-fail-fast -pduly-core"),
            (&["--package=duly-core"], "test --no-fail-fast --package=duly-core"),
            (&["--", "-p"], "test --no-fail-fast --workspace -- -p"),
        ] {
            assert_eq!(words(given), expected);
        }
    }

    #[test]
    fn a_child_that_dies_without_a_verdict_counts_as_a_failure() {
        let mut tally = Tally::default();
        let mut out = Vec::new();
        let mut dies = process::program("sh");
        dies.args(["-c", "echo 'test result: ok. 2 passed; 0 failed; 0 ignored'; exit 101"]);
        count(&mut dies, &mut tally, &mut out).unwrap();
        assert_eq!(tally.to_string(), "2 passed, 1 failed");

        let mut says_so = process::program("sh");
        says_so.args(["-c", "echo 'test result: FAILED. 0 passed; 3 failed; 0 ignored'; exit 101"]);
        count(&mut says_so, &mut tally, &mut out).unwrap();
        assert_eq!(tally.to_string(), "2 passed, 4 failed");
        assert_eq!(tally.outcome(), Outcome::Failed);

        let passed_through = String::from_utf8(out).unwrap();
        assert_eq!(passed_through.lines().count(), 2, "{passed_through}");
    }

    #[test]
    fn a_process_left_behind_does_not_hold_up_the_summary() {
        let mut tally = Tally::default();
        let mut out = Vec::new();
        // The `cat` lives, and keeps the output open, until `keeps_it_alive` is dropped.
        let (input, keeps_it_alive) = io::pipe().unwrap();
        let mut leaves_one = process::program("sh");
        leaves_one.stdin(input).args([
            "-c",
            "exec 3<&0; cat <&3 & echo 'test result: ok. 1 passed; 0 failed; 0 ignored'",
        ]);
        count(&mut leaves_one, &mut tally, &mut out).unwrap();
        assert_eq!(tally.to_string(), "1 passed, 0 failed");
        drop(keeps_it_alive);
    }
}
