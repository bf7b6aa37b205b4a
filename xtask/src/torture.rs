//! `cargo xtask torture --minutes N --seed S`: a real server under load, killed with -9 and stopped
//! at random moments, started again, and checked against everything it had acknowledged.
//!
//! The work is `duly-torture` of `duly-testkit`; this builds it and `duly` for release and passes
//! the arguments on. With `DULY_FUZZ_SEEDS` set, so many seeds of damaged bytes go through every
//! decoder first, and as many damaged sequences of HTTP calls through the server in process; with
//! `DULY_FUZZ_HTTP_SECONDS` set, `fuzz-http` attacks a real server for so long.

use anyhow::{Context, Result};

use crate::fuzz_http;
use crate::process::{self, Outcome};

/// How many seeds the decoders are tried with; read by their test.
const FUZZ_SEEDS: &str = "DULY_FUZZ_SEEDS";

/// How long a real server is attacked over HTTP.
const FUZZ_HTTP_SECONDS: &str = "DULY_FUZZ_HTTP_SECONDS";

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
    process::run_testkit("duly-torture", args)
}
