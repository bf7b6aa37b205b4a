//! `cargo xtask fuzz-http`: runs schemathesis against a fresh server, driven by the server's own OpenAPI
//! document.
//!
//! It sends requests to every call: some that the document allows, some at the edges of it, and some
//! that it does not allow. It reports
//!
//! 1. any 5xx,
//! 2. a response that does not match its description,
//! 3. a method that is refused in another way than documented,
//! 4. an accepted body of `fuzz_http/mutations.py`: an array in place of an object, or a duration
//!    without its unit.
//!
//! The tests of `duly-server` show that a refused request changes nothing: they can compare the store
//! before and after.
//!
//! The tool is installed, in the version given here, into a virtual environment below `target/`. That
//! needs `python3` with its `venv` and, the first time, a network.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;

use crate::process::{self, Outcome};
use crate::server::Server;
use crate::venv;

/// The tool and its version. The server passes the checks of this version.
const TOOL: &str = "schemathesis";
const VERSION: &str = "4.32.5";
/// The checks that a response must pass.
const CHECKS: &str = "not_a_server_error,response_schema_conformance,status_code_conformance,\
                      content_type_conformance,response_headers_conformance,unsupported_method,\
                      allow_header_conformance,mutations_are_refused";
/// Mutations of bodies, and the check that they are refused.
const MUTATIONS: &str = include_str!("fuzz_http/mutations.py");
/// Configuration: loads the mutations, and gives calls common ids. With a random id per call no timer
/// would ever be found, and nothing behind the first check would be reached.
const CONFIG: &str =
    "hooks = \"mutations.py\"\n[parameters]\n\"path.namespace\" = \"a\"\n\"path.id\" = \"t\"\n";
/// Time limit of a response, in seconds: a lease call may wait for a minute.
const RESPONSE_SECONDS: &str = "75";

/// Options of `cargo xtask fuzz-http`.
#[derive(Args, Clone, Copy)]
pub(crate) struct Options {
    /// Seed of all random choices.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Random requests per call.
    #[arg(long, default_value_t = 20)]
    pub(crate) examples: u32,
    /// Continue for this many seconds, with sequences of calls as well.
    #[arg(long)]
    pub(crate) seconds: Option<u64>,
}

/// Builds the server and fuzzes it.
pub(crate) fn run(options: &Options) -> Result<Outcome> {
    fuzz(options, &process::build_duly()?)
}

/// Installs the fuzzer.
pub(crate) fn install() -> Result<PathBuf> {
    let folder = directory().join(format!("{TOOL}-{VERSION}"));
    venv::install(&folder, &[&format!("{TOOL}=={VERSION}")])
}

/// Fuzzes a fresh server of this binary.
fn fuzz(options: &Options, duly: &Path) -> Result<Outcome> {
    let tool = install()?.join("bin/st");
    let server = Server::start(duly, &directory(), None)?;
    println!("fuzzing {} with seed {}", server.address, options.seed);
    let config = directory().join("names.toml");
    fs::write(&config, CONFIG).context("cannot write target/fuzz-http/names.toml")?;
    fs::write(directory().join("mutations.py"), MUTATIONS)
        .context("cannot write target/fuzz-http/mutations.py")?;
    let mut command = process::program(tool);
    command
        .arg("--config-file")
        .arg(config)
        .arg("run")
        .arg(format!("{}/openapi.json", server.address))
        .args(["--header", &format!("authorization: Bearer {}", server.key)])
        .args(["--seed", &options.seed.to_string()])
        .args(["--max-examples", &options.examples.to_string()])
        .args(["--checks", CHECKS])
        .args(["--request-timeout", RESPONSE_SECONDS])
        .args(["--warnings", "off", "--continue-on-failure"])
        // The tool keeps failed examples in its working directory.
        .current_dir(directory());
    let mut phases = "examples,coverage,fuzzing".to_owned();
    if let Some(seconds) = options.seconds {
        phases += ",stateful";
        command.args(["--max-time", &seconds.to_string()]);
    }
    command.args(["--phases", &phases]);
    let outcome = process::run(&mut command)?;
    if outcome == Outcome::Failed {
        eprintln!(
            "repeat with: cargo xtask fuzz-http --seed {} --examples {}",
            options.seed, options.examples
        );
    }
    server.stop()?;
    Ok(outcome)
}

fn directory() -> PathBuf {
    process::root().join("target/fuzz-http")
}
