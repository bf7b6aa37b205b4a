//! `cargo xtask torture --minutes N --seed S`: kills and stops a real server under load, and checks it
//! against everything that it had acknowledged.
//!
//! The server is killed with -9 or stopped at random moments, and started again. The work is done by
//! `duly-torture` of `duly-testkit`. This module builds it and `duly` for release, and passes the
//! arguments on.
//!
//! Environment variables add tests before that run, in this order:
//!
//! 1. `DULY_FUZZ_SEEDS`: that number of damaged HTTP call sequences for the server in process.
//! 2. `DULY_FUZZ_HTTP_SECONDS`: `fuzz-http` against a real server for that time.
//! 3. `DULY_FUZZ_SEEDS`: that number of seeds of damaged bytes for every decoder.
//! 4. `DULY_RACES`: that number of races between calls about a timer, checked on the embedded store in
//!    process.
//! 5. `DULY_CRASH_SEEDS`: that number of seeds of simulated crashes, power losses and failing disks of
//!    that store. Tests that otherwise skip disk operations then crash at each of them.
//! 6. `DULY_MODEL_SEEDS`: that number of seeds of comparing that store with the reference model.
//! 7. `DULY_NAMESPACE_CYCLES`: that number of namespaces created and deleted in that store.
//! 8. `DULY_TENANT_LOAD`: that number of seconds for each way in which a tenant can take more than its part,
//!    beside calls of another tenant.
//! 9. `DULY_CLOCK_SEEDS`: that number of runs of a node on that store with its clock set forward and
//!    back. (A real server's clock cannot be set without setting the machine's.)

use std::process::Stdio;

use anyhow::{Context, Result, bail};

use crate::fuzz_http;
use crate::process::{self, DULY_BIN, Outcome, Profile};
use crate::static_binary;

/// The argument that tortures a static binary, as the image has it.
const STATIC: &str = "--static";

/// Number of seeds for the decoders; read by their test.
const FUZZ_SEEDS: &str = "DULY_FUZZ_SEEDS";

/// Seconds of fuzzing a real server over HTTP.
const FUZZ_HTTP_SECONDS: &str = "DULY_FUZZ_HTTP_SECONDS";

/// Number of races between calls about a timer; read by their test.
const RACES: &str = "DULY_RACES";

/// Number of crash and fault seeds for the embedded store; read by its tests.
const CRASH_SEEDS: &str = "DULY_CRASH_SEEDS";

/// Number of seeds of random operations that are compared with the reference model; read by their test.
const MODEL_SEEDS: &str = "DULY_MODEL_SEEDS";

/// Number of namespaces that are created and deleted, and number of namespace numbers available for
/// them; read by their test.
const NAMESPACE_CYCLES: &str = "DULY_NAMESPACE_CYCLES";
const NAMESPACE_NUMBERS: &str = "DULY_NAMESPACE_NUMBERS";

/// Seconds of each load of a tenant; read by their test.
const TENANT_LOAD: &str = "DULY_TENANT_LOAD";

/// Number of runs with clock changes; read by their test.
const CLOCK_SEEDS: &str = "DULY_CLOCK_SEEDS";

/// Distance between two crashes of a test, in disk operations; read by their tests.
const CRASH_STRIDE: &str = "DULY_CRASH_STRIDE";

/// A group of tests that read their length from the environment.
struct TestGroup {
    /// The variable that enables the group.
    variable: &'static str,
    package: &'static str,
    target: &'static [&'static str],
    /// Parts of the tests' names.
    tests: &'static [&'static str],
    /// A variable and its value, set for the tests unless the caller has set it.
    default: Option<(&'static str, &'static str)>,
}

/// Makes a test print a fault, and the line that repeats it, at once. Otherwise the output is printed
/// when all tests have ended, and is lost if the run is stopped or hangs.
const NOCAPTURE: &str = "--nocapture";

/// The crate of the embedded store. Its tests run before a server is built.
const STORE: &str = "duly-store-embedded";

/// Modules of the store's tests that read `DULY_CRASH_SEEDS`.
const CRASH_MODULES: &[&str] = &[
    "backup::",
    "busy_races::",
    "check::",
    "clock_steps::",
    "races::",
    "simulation::",
    "sudden_end::",
];

/// Modules of the store's tests that crash at every n-th disk operation (`DULY_CRASH_STRIDE`).
const STRIDE_MODULES: &[&str] = &[
    "backup_crashes::",
    "check::",
    "checkpoint_crashes::",
    "crash_points::",
    "enospc::",
    "every_error::",
    "holes::",
    "rolls::",
    "rot::",
    "tombstone_crashes::",
];

const LIB: &[&str] = &["--lib"];
const IT: &[&str] = &["--test", "it"];

/// The test groups in process, in the order in which they run.
const TEST_GROUPS: [TestGroup; 9] = [
    TestGroup::new(FUZZ_SEEDS, STORE, LIB, &["fuzz::"], None),
    TestGroup::new(FUZZ_SEEDS, "duly-server", LIB, &["cursor"], None),
    TestGroup::new(RACES, STORE, IT, &["outcomes"], None),
    TestGroup::new(CRASH_SEEDS, STORE, IT, CRASH_MODULES, None),
    TestGroup::new(CRASH_SEEDS, STORE, IT, STRIDE_MODULES, Some((CRASH_STRIDE, "1"))),
    TestGroup::new(CRASH_SEEDS, STORE, LIB, &["fuzzy::"], None),
    TestGroup::new(MODEL_SEEDS, STORE, IT, &["model::"], None),
    TestGroup::new(
        NAMESPACE_CYCLES,
        STORE,
        LIB,
        &["numbers::"],
        Some((NAMESPACE_NUMBERS, "65535")),
    ),
    TestGroup::new(TENANT_LOAD, "duly", IT, &["tenants::a_tenant"], None),
];

impl TestGroup {
    const fn new(
        variable: &'static str,
        package: &'static str,
        target: &'static [&'static str],
        tests: &'static [&'static str],
        default: Option<(&'static str, &'static str)>,
    ) -> Self {
        Self { variable, package, target, tests, default }
    }

    fn run(&self) -> Result<Outcome> {
        let mut command = process::cargo(["test", "--release", "-p", self.package]);
        command.args(self.target).args(["--", NOCAPTURE]).args(self.tests);
        if let Some((variable, value)) = self.default
            && std::env::var_os(variable).is_none()
        {
            command.env(variable, value);
        }
        process::run(&mut command)
    }
}

/// The text in front of the number in the output of the clock test.
const CLOCK_STEPS: &str = "clock steps: ";

/// Returns the `--seed` among the arguments, or its default.
fn seed(args: &[String]) -> u64 {
    let named = args.iter().find_map(|arg| arg.strip_prefix("--seed="));
    let next = args.iter().position(|arg| arg == "--seed").and_then(|at| args.get(at + 1));
    named.or(next.map(String::as_str)).and_then(|seed| seed.parse().ok()).unwrap_or(1)
}

/// Builds and runs everything, and returns the verdict.
pub(crate) fn run(args: &[String]) -> Result<Outcome> {
    if let Ok(seeds) = std::env::var(FUZZ_SEEDS) {
        let calls =
            ["test", "--release", "-p", "duly-server", "--test", "it", "fuzz", "--", NOCAPTURE];
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
    for group in TEST_GROUPS {
        let is_wanted = std::env::var_os(group.variable).is_some();
        if is_wanted && group.run()? == Outcome::Failed {
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
    let is_static = args.iter().any(|arg| arg == STATIC);
    args.retain(|arg| arg != STATIC);
    let built = process::build_binaries(Profile::Release, &["duly", "duly-torture"])?;
    let [duly, torture] = built.as_slice() else { bail!("cargo did not build both binaries") };
    let duly = if is_static { static_binary::build()? } else { duly.clone() };
    process::run(process::program(torture).args(args).env(DULY_BIN, duly))
}

/// Runs the clock test in process. Returns the number of clock changes, or `None` if a test failed.
fn clock_steps() -> Result<Option<u64>> {
    let test = ["test", "--release", "-p", "duly-node", "--lib", "clock_steps"];
    let mut command = process::cargo(test);
    let output = command
        .args(["--", NOCAPTURE])
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start `{}`", process::shown(&command)))?;
    let text = String::from_utf8_lossy(&output.stdout);
    print!("{text}");
    if !output.status.success() {
        return Ok(None);
    }
    parse_clock_steps(&text).context("the test of clock steps did not print their number").map(Some)
}

/// Returns the number behind [`CLOCK_STEPS`].
fn parse_clock_steps(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.split_once(CLOCK_STEPS)?.1.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs};

    use super::*;

    /// Returns the modules of the store's integration tests whose text contains one of these parts.
    fn modules_with(parts: &[&str]) -> BTreeSet<String> {
        let dir = process::root().join("crates").join(STORE).join("tests/it");
        let mut modules = BTreeSet::new();
        for entry in fs::read_dir(dir).expect("the store has tests") {
            let path = entry.expect("it can be listed").path();
            let is_source = path.extension().is_some_and(|extension| extension == "rs");
            let stem = path.file_stem().expect("a file has a name").to_string_lossy();
            if !is_source || stem == "main" {
                continue;
            }
            let text = fs::read_to_string(&path).expect("it can be read");
            if parts.iter().any(|part| text.contains(part)) {
                modules.insert(format!("{stem}::"));
            }
        }
        modules
    }

    fn set_of(modules: &[&str]) -> BTreeSet<String> {
        modules.iter().map(|module| (*module).to_owned()).collect()
    }

    #[test]
    fn every_seeded_test_is_in_a_torture_group() {
        let with_stride = modules_with(&[
            "number(\"DULY_CRASH_STRIDE\"",
            "checkpoint_crashes::every_operation",
            "every_operation_of(",
        ]);
        let with_seeds = modules_with(&["number(\"DULY_CRASH_SEEDS\""]);
        let strides = set_of(STRIDE_MODULES);
        let all = &strides | &set_of(CRASH_MODULES);
        assert_eq!(with_stride, strides);
        assert_eq!(&with_seeds | &with_stride, all);
    }

    #[test]
    fn clock_step_count_is_found_anywhere_in_its_line() {
        for (text, number) in [
            ("running 2 tests\nclock steps: 121\ntest a ... ok\n", Some(121)),
            ("test a ... clock steps: 7\nok\n", Some(7)),
            ("running 0 tests\n", None),
        ] {
            assert_eq!(super::parse_clock_steps(text), number, "{text}");
        }
    }
}
