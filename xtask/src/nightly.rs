//! `cargo xtask nightly`: runs the steps that take too long for CI. Run it every night if you can, and before each release.

use anyhow::{Context, Result, ensure};

use crate::process::{self, Outcome};
use crate::steps::Steps;

/// The variable by which tests know that they run all of their rounds.
pub(crate) const NIGHTLY: &str = "DULY_NIGHTLY";

/// A step: the arguments of `cargo`, and the reason for it.
const STEPS: [(&[&str], &str); 13] = [
    (&["xtask", "deps", "--advisories"], "advisories change without a change of ours"),
    (
        &["clippy", "-p", "duly", "--no-default-features", "--locked", "--", "-D", "warnings"],
        "in CI other crates may add the features that this one needs alone",
    ),
    (&["xtask", "torture", "--minutes", "60", "--seed", "7"], "long, and with an optimized build"),
    (
        &["xtask", "torture", "--static", "--minutes", "10", "--seed", "8"],
        "the binary of the image",
    ),
    (
        &["xtask", "torture", "--store", "redis-cluster", "--minutes", "10", "--seed", "7"],
        "every fault of nodes and Redis",
    ),
    (
        &["test", "-p", "duly", "--test", "it", "unusable_master", "--", "--test-threads=1"],
        "every master with every fault, and with replicas",
    ),
    (
        &["test", "--release", "-p", "duly", "--test", "it", "memory"],
        "attacks on memory, with the time limits of an optimized build",
    ),
    (&TESTS_WITH_ROUNDS, "every seed, crash point and fault of a file; in CI a third of them"),
    (
        &["xtask", "clients", "--all"],
        "the generators and compilers of Go and Java, which CI may lack",
    ),
    (&["xtask", "test", "--valkey"], "in CI those that can differ from Redis"),
    (&["xtask", "planted"], "each bug compiles its crate again"),
    (&["xtask", "upgrade"], "compiles the release before, and the build before releases"),
    (&["xtask", "release", "--twice", "--trial"], "both builds must have the same bytes"),
];

/// The tests of the crates that take the number of their rounds from `duly_store::conformance`.
const TESTS_WITH_ROUNDS: [&str; 10] = [
    "test",
    "--no-fail-fast",
    "-p",
    "duly-store",
    "-p",
    "duly-store-embedded",
    "-p",
    "duly-store-redis",
    "-p",
    "duly-node",
];

/// Runs all steps, and prints a table of their times and faults.
pub(crate) fn run() -> Result<Outcome> {
    let mut steps = Steps::default();
    let mut failed = Vec::new();
    for (args, why) in STEPS {
        let name = format!("cargo {}", args.join(" "));
        let result = steps.run(&format!("{name} ({why})"), || {
            let outcome =
                process::run(process::cargo(args).env(NIGHTLY, "1")).context("cannot run cargo")?;
            ensure!(outcome == Outcome::Passed, "failed");
            Ok(())
        });
        if result.is_err() {
            failed.push(name);
        }
    }
    steps.print_times();
    failed.iter().for_each(|name| eprintln!("error: `{name}` failed: see above"));
    Ok(if failed.is_empty() { Outcome::Passed } else { Outcome::Failed })
}
