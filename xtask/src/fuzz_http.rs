//! `cargo xtask fuzz-http`: schemathesis, driven by the server's own OpenAPI document, against a
//! fresh server.
//!
//! It sends what the document allows, what lies at the edges of it, and what it does not allow, to
//! every call, and objects to any 5xx, to an answer that is not as described, to a method that is
//! refused in another way than promised, and to a body of `fuzz_http/mutations.py` that is taken: an
//! array in place of an object, or a duration without its unit. That what is refused changes nothing is shown by the
//! tests of `duly-server`, which can look at the store before and after.
//!
//! The tool is installed, in the one version that is named here, into a virtual environment below
//! `target/`; that needs `python3` with its `venv` and, the first time, a network.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;

use crate::process::{self, Outcome, Profile};
use crate::server::Server;
use crate::venv;

/// The tool, and the version whose checks are known to be content.
const TOOL: &str = "schemathesis";
const VERSION: &str = "4.32.5";
/// What is objected to.
const CHECKS: &str = "not_a_server_error,response_schema_conformance,status_code_conformance,\
                      content_type_conformance,response_headers_conformance,unsupported_method,\
                      allow_header_conformance,mutations_are_refused";
/// Mutations of bodies, and the check that they are refused.
const MUTATIONS: &str = include_str!("fuzz_http/mutations.py");
/// Loads the mutations. Names that calls have in common, so that they meet: a name made up anew for each call would never
/// be known, and nothing behind the first check be reached.
const CONFIG: &str =
    "hooks = \"mutations.py\"\n[parameters]\n\"path.namespace\" = \"a\"\n\"path.id\" = \"t\"\n";
/// A lease call may wait for a minute.
const ANSWER_SECONDS: &str = "75";

/// What `cargo xtask fuzz-http` takes.
#[derive(Args, Clone, Copy)]
pub(crate) struct Options {
    /// Where every random choice starts.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Random requests for each call.
    #[arg(long, default_value_t = 20)]
    pub(crate) examples: u32,
    /// Go on for so many seconds, with sequences of calls as well.
    #[arg(long)]
    pub(crate) seconds: Option<u64>,
}

/// Builds the server and attacks it.
pub(crate) fn run(options: &Options) -> Result<Outcome> {
    let built = process::build_binaries(Profile::Dev, &["duly"])?;
    attack(options, built.first().context("cargo built no binary")?)
}

/// Attacks a fresh server of this binary.
pub(crate) fn attack(options: &Options, duly: &Path) -> Result<Outcome> {
    let tool = tool_env()?.join("bin/st");
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
        .args(["--seed", &options.seed.to_string()])
        .args(["--max-examples", &options.examples.to_string()])
        .args(["--checks", CHECKS])
        .args(["--request-timeout", ANSWER_SECONDS])
        .args(["--warnings", "off", "--continue-on-failure"])
        // It keeps examples that failed where it is started.
        .current_dir(directory());
    match options.seconds {
        Some(seconds) => {
            command.args(["--phases", "examples,coverage,fuzzing,stateful"]);
            command.args(["--max-time", &seconds.to_string()]);
        }
        None => {
            command.args(["--phases", "examples,coverage,fuzzing"]);
        }
    }
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

/// The virtual environment of the tool; made if it is not there.
fn tool_env() -> Result<PathBuf> {
    venv::install(&directory().join(format!("{TOOL}-{VERSION}")), &format!("{TOOL}=={VERSION}"))
}
