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
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::process::{self, Outcome, Profile};

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
    let tool = install()?;
    let server = Server::start(duly)?;
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

/// Where the tool is; installed if it is not there.
fn install() -> Result<PathBuf> {
    let place = directory().join(format!("{TOOL}-{VERSION}"));
    let tool = place.join("bin/st");
    if tool.exists() {
        return Ok(tool);
    }
    fs::create_dir_all(directory()).context("cannot make target/fuzz-http")?;
    let venv =
        || process::run(process::program("python3").args(["-m", "venv", "--clear"]).arg(&place));
    if venv().ok() != Some(Outcome::Passed) {
        // Debian keeps it in a package of its own; as root, as in a container, it can be had.
        println!("no venv: trying apt-get install python3-venv");
        let install = ["install", "-y", "--no-install-recommends", "python3-venv"];
        process::run(process::program("apt-get").args(install)).ok();
        if venv()? == Outcome::Failed {
            bail!("python3 makes no virtual environment: install it (Debian: python3-venv)");
        }
    }
    let package = format!("{TOOL}=={VERSION}");
    let mut pip = process::program(place.join("bin/pip"));
    pip.args(["install", "--quiet", "--disable-pip-version-check", &package]);
    if process::run(&mut pip)? == Outcome::Failed {
        fs::remove_dir_all(&place).ok();
        bail!("{package} cannot be installed: is there a network?");
    }
    Ok(tool)
}

/// A server with nothing in it; killed when dropped.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(duly: &Path) -> Result<Self> {
        let data = directory().join("data");
        if data.exists() {
            fs::remove_dir_all(&data).context("cannot remove target/fuzz-http/data")?;
        }
        let mut command = process::program(duly);
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(&data)
            .env("DULY_STORE__MIN_FREE_BYTES", "0")
            .env("DULY_STORE__MIN_FREE_PERCENT", "0")
            .env("DULY_STORE__SEGMENT_BYTES", "16MiB")
            .env("DULY_LOG__LEVEL", "error")
            .stdout(Stdio::piped());
        let mut child = command.spawn().context("cannot start duly")?;
        let output = child.stdout.take().context("the child has no standard output")?;
        let mut server = Self { child, address: String::new() };
        for line in BufReader::new(output).lines() {
            let line = line?;
            if let Some(address) = line.split_whitespace().find(|word| word.starts_with("http://"))
            {
                server.address = address.trim_end_matches('/').to_owned();
                return Ok(server);
            }
        }
        bail!("duly ended before it listened");
    }

    /// Ends it; one that ended by itself is a fault.
    fn stop(mut self) -> Result<()> {
        match self.child.try_wait()? {
            Some(status) => bail!("duly ended while it was attacked: {status}"),
            None => Ok(()),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
