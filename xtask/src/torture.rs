//! `cargo xtask torture --minutes N --seed S`: a real server under load, killed with -9 and stopped
//! at random moments, started again, and checked against everything it had acknowledged.
//!
//! The work is `duly-torture` of `duly-testkit`; this builds it and `duly` for release and passes
//! the arguments on. With `DULY_FUZZ_SEEDS` set, so many seeds of damaged bytes go through every
//! decoder first, and as many damaged sequences of HTTP calls through the server in process; with
//! `DULY_FUZZ_HTTP_SECONDS` set, `fuzz-http` attacks a real server for so long. With `DULY_RACES`
//! set, so many races between the calls about a timer are judged first, on the embedded store in
//! process; with `DULY_CRASH_SEEDS` set, so many seeds of simulated crashes, power losses and failing
//! disks of that store, and with `DULY_MODEL_SEEDS` so many of its comparison with the reference; with
//! `DULY_CLOCK_SEEDS` set, so many courses of a node on that store whose clock is set forward and back
//! (a real server's clock cannot be set without setting the machine's).

use std::process::Stdio;

use anyhow::{Context, Result};

use crate::fuzz_http;
use crate::process::{self, Outcome};

/// How many seeds the decoders are tried with; read by their test.
const FUZZ_SEEDS: &str = "DULY_FUZZ_SEEDS";

/// How long a real server is attacked over HTTP.
const FUZZ_HTTP_SECONDS: &str = "DULY_FUZZ_HTTP_SECONDS";

/// How many races between calls about a timer are judged; read by their test.
const RACES: &str = "DULY_RACES";

/// How many seeds of misfortunes the embedded store is taken through; read by its tests.
const CRASH_SEEDS: &str = "DULY_CRASH_SEEDS";

/// How many seeds of random operations are compared with the reference; read by their test.
const MODEL_SEEDS: &str = "DULY_MODEL_SEEDS";

/// How many courses have their clock set; read by their test.
const CLOCK_SEEDS: &str = "DULY_CLOCK_SEEDS";

/// Seeds of attacks on the embedded store in process, the arguments behind `cargo test` that they
/// go to, and which of these tests; each reads the variable itself.
const IN_PROCESS: [(&str, &[&str], &[&str]); 4] = [
    (RACES, &["--test", "it"], &["outcomes"]),
    (CRASH_SEEDS, &["--test", "it"], &["simulation::", "sudden_end::", "clock_steps::"]),
    (CRASH_SEEDS, &["--lib"], &["fuzzy::"]),
    (MODEL_SEEDS, &["--test", "it"], &["model::"]),
];

/// What the test of clock steps says before their number.
const CLOCK_STEPS: &str = "clock steps: ";

/// The `--seed` among the arguments, or its default.
fn seed(args: &[String]) -> u64 {
    let named = args.iter().find_map(|arg| arg.strip_prefix("--seed="));
    let next = args.iter().position(|arg| arg == "--seed").and_then(|at| args.get(at + 1));
    named.or(next.map(String::as_str)).and_then(|seed| seed.parse().ok()).unwrap_or(1)
}

/// Builds, runs, and answers the checker's verdict.
pub(crate) fn run(args: &[String]) -> Result<Outcome> {
    if let Ok(seeds) = std::env::var(FUZZ_SEEDS) {
        let fuzz = ["test", "--release", "-p", "duly-store-embedded", "--lib", "fuzz"];
        if process::run(&mut process::cargo(fuzz))? == Outcome::Failed {
            return Ok(Outcome::Failed);
        }
        let calls = ["test", "--release", "-p", "duly-server", "--test", "it", "fuzz"];
        if process::run(process::cargo(calls).env("PROPTEST_CASES", seeds))? == Outcome::Failed {
            return Ok(Outcome::Failed);
        }
    }
    if let Ok(seconds) = std::env::var(FUZZ_HTTP_SECONDS) {
        let seconds = seconds.parse().with_context(|| {
            format!("{FUZZ_HTTP_SECONDS} must be a number of seconds; got {seconds:?}")
        })?;
        let options =
            fuzz_http::Options { seed: seed(args), examples: 100, seconds: Some(seconds) };
        if fuzz_http::run(&options)? == Outcome::Failed {
            return Ok(Outcome::Failed);
        }
    }
    for (variable, target, tests) in IN_PROCESS {
        if std::env::var_os(variable).is_none() {
            continue;
        }
        let mut command = process::cargo(["test", "--release", "-p", "duly-store-embedded"]);
        command.args(target).arg("--").args(tests);
        if process::run(&mut command)? == Outcome::Failed {
            return Ok(Outcome::Failed);
        }
    }
    let mut args = args.to_vec();
    if std::env::var_os(CLOCK_SEEDS).is_some() {
        let Some(steps) = clock_steps()? else {
            return Ok(Outcome::Failed);
        };
        args.extend(["--clock-steps".to_owned(), steps.to_string()]);
    }
    process::run_testkit("duly-torture", &args)
}

/// Sets clocks in process; answers how often, or nothing when something came of it.
fn clock_steps() -> Result<Option<u64>> {
    let test = ["test", "--release", "-p", "duly-node", "--lib", "clock_steps"];
    let mut command = process::cargo(test);
    let output = command
        .args(["--", "--nocapture"])
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start `{}`", process::shown(&command)))?;
    let text = String::from_utf8_lossy(&output.stdout);
    print!("{text}");
    if !output.status.success() {
        return Ok(None);
    }
    counted(&text).context("the test of clock steps did not say how many it made").map(Some)
}

/// The number behind [`CLOCK_STEPS`].
fn counted(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.split_once(CLOCK_STEPS)?.1.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_number_of_clock_steps_is_found_wherever_it_stands_in_its_line() {
        for (text, number) in [
            ("running 2 tests\nclock steps: 121\ntest a ... ok\n", Some(121)),
            ("test a ... clock steps: 7\nok\n", Some(7)),
            ("running 0 tests\n", None),
        ] {
            assert_eq!(super::counted(text), number, "{text}");
        }
    }
}
