//! `cargo xtask torture --minutes N --seed S`: a real server under load, killed with -9 and stopped
//! at random moments, started again, and checked against everything it had acknowledged.
//!
//! The work is `duly-torture` of `duly-testkit`; this builds it and `duly` for release and passes
//! the arguments on. With `DULY_FUZZ_SEEDS` set, so many seeds of damaged bytes go through every
//! decoder first, and as many damaged sequences of HTTP calls through the server in process; with
//! `DULY_FUZZ_HTTP_SECONDS` set, `fuzz-http` attacks a real server for so long. With `DULY_RACES`
//! set, so many races between the calls about a timer are judged first, on the embedded store in
//! process; with `DULY_CRASH_SEEDS` set, so many seeds of simulated crashes, power losses and failing
//! disks of that store, and a crash at every operation where the ordinary tests pass some over, and with
//! `DULY_MODEL_SEEDS` so many of its comparison with the reference; with `DULY_NAMESPACE_CYCLES` set,
//! so many namespaces are created and deleted there; with `DULY_CLOCK_SEEDS` set, so many courses of a node on that store whose clock is set forward and back
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

/// How many namespaces are made and deleted, and how many numbers there are for them; read by their test.
const NAMESPACE_CYCLES: &str = "DULY_NAMESPACE_CYCLES";
const NAMESPACE_NUMBERS: &str = "DULY_NAMESPACE_NUMBERS";

/// How many courses have their clock set; read by their test.
const CLOCK_SEEDS: &str = "DULY_CLOCK_SEEDS";

/// How many of the disk operations a test passes over between two crashes; read by their tests.
const CRASH_STRIDE: &str = "DULY_CRASH_STRIDE";

/// Tests that read how long they are to be from the environment.
struct InProcess {
    /// Run when this is set.
    variable: &'static str,
    package: &'static str,
    target: &'static [&'static str],
    /// Parts of their names.
    tests: &'static [&'static str],
    /// What they are told besides, unless the caller says otherwise.
    default: Option<(&'static str, &'static str)>,
}

/// Has a test say at once what is wrong, and which line repeats it: otherwise that is printed when all
/// have ended, and lost with a run that is stopped before or does not end.
const SHOW: &str = "--nocapture";

/// The store's own tests; what needs no other package is run before a server is built.
const STORE: &str = "duly-store-embedded";

/// Modules of the store's tests that take so many seeds.
const CRASH_MODULES: &[&str] = &[
    "backup::",
    "busy_races::",
    "check::",
    "clock_steps::",
    "crash_points::",
    "races::",
    "simulation::",
    "sudden_end::",
];

/// Modules of the store's tests that go from disk operation to disk operation with a stride.
const STRIDE_MODULES: &[&str] = &[
    "backup_crashes::",
    "check::",
    "checkpoint_crashes::",
    "enospc::",
    "every_error::",
    "holes::",
    "rolls::",
    "rot::",
    "tombstone_crashes::",
];

/// The attacks in process, in the order in which they run.
const IN_PROCESS: &[InProcess] = &[
    InProcess {
        variable: FUZZ_SEEDS,
        package: STORE,
        target: &["--lib"],
        tests: &["fuzz::"],
        default: None,
    },
    InProcess {
        variable: FUZZ_SEEDS,
        package: "duly-server",
        target: &["--lib"],
        tests: &["cursor"],
        default: None,
    },
    InProcess {
        variable: RACES,
        package: STORE,
        target: &["--test", "it"],
        tests: &["outcomes"],
        default: None,
    },
    InProcess {
        variable: CRASH_SEEDS,
        package: STORE,
        target: &["--test", "it"],
        tests: CRASH_MODULES,
        default: None,
    },
    InProcess {
        variable: CRASH_SEEDS,
        package: STORE,
        target: &["--test", "it"],
        tests: STRIDE_MODULES,
        default: Some((CRASH_STRIDE, "1")),
    },
    InProcess {
        variable: CRASH_SEEDS,
        package: STORE,
        target: &["--lib"],
        tests: &["fuzzy::"],
        default: None,
    },
    InProcess {
        variable: MODEL_SEEDS,
        package: STORE,
        target: &["--test", "it"],
        tests: &["model::"],
        default: None,
    },
    InProcess {
        variable: NAMESPACE_CYCLES,
        package: STORE,
        target: &["--lib"],
        tests: &["numbers::"],
        default: Some((NAMESPACE_NUMBERS, "65535")),
    },
];

impl InProcess {
    fn run(&self) -> Result<Outcome> {
        let mut command = process::cargo(["test", "--release", "-p", self.package]);
        command.args(self.target).args(["--", SHOW]).args(self.tests);
        if let Some((variable, value)) = self.default
            && std::env::var_os(variable).is_none()
        {
            command.env(variable, value);
        }
        process::run(&mut command)
    }
}

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
        let calls = ["test", "--release", "-p", "duly-server", "--test", "it", "fuzz", "--", SHOW];
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
    for attack in IN_PROCESS {
        let is_wanted = std::env::var_os(attack.variable).is_some();
        if is_wanted && attack.run()? == Outcome::Failed {
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
        .args(["--", SHOW])
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
    use std::{collections::BTreeSet, fs};

    use super::*;

    /// Modules of the store's integration tests whose text has one of these parts.
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
    fn every_test_that_can_be_lengthened_is() {
        let with_stride = modules_with(&[
            "number(\"DULY_CRASH_STRIDE\"",
            "checkpoint_crashes::every_operation",
            "every_operation_of(",
        ]);
        let with_seeds = modules_with(&["number(\"DULY_CRASH_SEEDS\""]);
        let strides = set_of(STRIDE_MODULES);
        let all = &strides | &set_of(CRASH_MODULES);
        // Crash points have a stride of 1 of their own.
        let crash_points = BTreeSet::from(["crash_points::".to_owned()]);
        assert_eq!(&with_stride - &crash_points, strides);
        assert_eq!(&with_seeds | &with_stride, all);
    }

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
