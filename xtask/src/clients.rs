//! `cargo xtask clients`: generates clients from the OpenAPI document with public generators, and runs
//! them against a server. It is a step of the test command.
//!
//! 1. The generator of Python gets the JSON form of every operation ([`json_form`]), that of TypeScript the
//!    document as it is.
//! 2. Both clients must have every operation of the document.
//! 3. A program in each language calls every operation once. The TypeScript program is type-checked.
//!
//! The generators are installed below `target/clients`, in the versions given here and in
//! `clients/package-lock.json`. That needs `python3` with `venv`, `node`, `npm`, and the first time a
//! network. `--all` adds the clients of Go and Java ([`compiled`]).

mod compiled;
mod json_form;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::Value;

use crate::process::{self, Outcome};
use crate::server::Server;
use crate::venv;

/// The generator of the Python client.
const PYTHON_GENERATOR: &str = "openapi-python-client==0.29.1";
/// The programs, and the build files of the TypeScript program.
const FILES: [(&str, &str); 5] = [
    ("calls.py", include_str!("clients/calls.py")),
    ("calls.ts", include_str!("clients/calls.ts")),
    ("package.json", include_str!("clients/package.json")),
    ("package-lock.json", include_str!("clients/package-lock.json")),
    ("tsconfig.json", include_str!("clients/tsconfig.json")),
];
/// The document that the server publishes.
const PUBLISHED: &str = "docs/reference/openapi.json";
/// The document that the generator of Python gets, below [`directory`].
const DOCUMENT: &str = "openapi.json";

/// A language: the functions that generate and run its client.
pub(crate) struct Language {
    /// Its name.
    pub(crate) name: &'static str,
    install: fn() -> Result<()>,
    generate: fn() -> Result<Vec<String>>,
    run: fn(&Server, &Path) -> Result<Outcome>,
}

/// The languages.
pub(crate) const LANGUAGES: [Language; 2] = [
    Language {
        name: "Python",
        install: python::install,
        generate: python::generate,
        run: python::run,
    },
    Language {
        name: "TypeScript",
        install: typescript::install,
        generate: typescript::generate,
        run: typescript::run,
    },
];

/// Options of `cargo xtask clients`.
#[derive(Args)]
pub(crate) struct Options {
    /// Also compile the clients of Go and Java, and schedule, lease and settle with each (nightly).
    #[arg(long)]
    all: bool,
}

/// Builds the server and checks the client of each language.
pub(crate) fn run(options: &Options) -> Result<Outcome> {
    let duly = process::build_duly()?;
    for language in &LANGUAGES {
        if language.check(&duly)? == Outcome::Failed {
            return Ok(Outcome::Failed);
        }
    }
    Ok(if options.all { compiled::check(&duly) } else { Outcome::Passed })
}

impl Language {
    /// Installs the generator.
    pub(crate) fn install(&self) -> Result<()> {
        prepare()?;
        (self.install)()
    }

    /// Generates the client and calls every operation of a fresh server of this binary.
    fn check(&self, duly: &Path) -> Result<Outcome> {
        let document = prepare()?;
        let found = (self.generate)()?;
        let missing: Vec<_> = operation_ids(&document)
            .into_iter()
            .filter(|id| !found.iter().any(|name| without_case(name) == without_case(id)))
            .collect();
        if !missing.is_empty() {
            eprintln!("error: the {} client lacks {}", self.name, missing.join(", "));
            return Ok(Outcome::Failed);
        }
        println!("the {} client has all {} operations", self.name, found.len());
        let backups = directory().join("backups");
        let server = Server::start(duly, &directory(), Some(&backups))?;
        let outcome = (self.run)(&server, &backups)?;
        server.stop()?;
        Ok(outcome)
    }
}

fn directory() -> PathBuf {
    process::root().join("target/clients")
}

/// Writes the programs and the document below `target/clients`.
fn prepare() -> Result<Value> {
    fs::create_dir_all(directory()).context("cannot make target/clients")?;
    for (name, text) in FILES {
        fs::write(directory().join(name), text).with_context(|| format!("cannot write {name}"))?;
    }
    let text = fs::read_to_string(process::root().join(PUBLISHED))
        .with_context(|| format!("cannot read {PUBLISHED}"))?;
    let mut document = serde_json::from_str(&text).context("openapi.json is no JSON")?;
    json_form::reduce(&mut document);
    fs::write(directory().join(DOCUMENT), document.to_string())
        .context("cannot write target/clients/openapi.json")?;
    Ok(document)
}

fn operation_ids(document: &Value) -> Vec<String> {
    let ids = json_form::operations(document);
    ids.filter_map(|operation| operation["operationId"].as_str()).map(str::to_owned).collect()
}

/// Returns a name without its language's style: `getTimer`, `get_timer`.
fn without_case(name: &str) -> String {
    name.replace('_', "").to_lowercase()
}

/// Returns a command that runs in `target/clients`.
fn command<S: AsRef<OsStr>>(
    program: impl AsRef<OsStr>,
    args: impl IntoIterator<Item = S>,
) -> Command {
    let mut command = process::program(program);
    command.args(args).current_dir(directory());
    command
}

mod python {
    //! `openapi-python-client`.

    use super::*;

    const PACKAGE: &str = "python_client";

    fn environment() -> Result<PathBuf> {
        venv::install(&directory().join(PYTHON_GENERATOR.replace("==", "-")), &[PYTHON_GENERATOR])
    }

    pub(super) fn install() -> Result<()> {
        environment().map(drop)
    }

    pub(super) fn generate() -> Result<Vec<String>> {
        let config = directory().join("python.yml");
        // Formatting needs another program, and changes nothing that is tested.
        fs::write(&config, "post_hooks: []\n").context("cannot write python.yml")?;
        let generator = environment()?.join("bin/openapi-python-client");
        let old = directory().join(PACKAGE);
        if old.exists() {
            fs::remove_dir_all(old).context("cannot remove the old Python client")?;
        }
        let args = ["generate", "--path", DOCUMENT, "--meta", "none", "--output-path", PACKAGE];
        let more = ["--fail-on-warning", "--config", "python.yml"];
        process::run_or_fail(command(generator, args).args(more))
            .context("cannot generate the Python client")?;
        let mut found = Vec::new();
        let tags = directory().join(PACKAGE).join("api");
        for tag in fs::read_dir(&tags).context("the Python client has no api/")? {
            let tag = tag?.path();
            for file in fs::read_dir(&tag).into_iter().flatten() {
                let name = file?.file_name().into_string().unwrap_or_default();
                found.extend(name.strip_suffix(".py").map(str::to_owned));
            }
        }
        found.retain(|name| name != "__init__");
        Ok(found)
    }

    pub(super) fn run(server: &Server, backups: &Path) -> Result<Outcome> {
        let python = environment()?.join("bin/python");
        let args = ["calls.py", PACKAGE, DOCUMENT, &server.address, &server.key];
        process::run(command(python, args).arg(backups))
    }
}

mod typescript {
    //! `@hey-api/openapi-ts`, checked by `tsc` and run by `node`.

    use super::*;

    pub(super) fn generate() -> Result<Vec<String>> {
        install()?;
        let generator = "node_modules/.bin/openapi-ts";
        let args =
            ["--output", "client", "--client", "@hey-api/client-fetch", "--silent", "--input"];
        let document = process::root().join(PUBLISHED);
        process::run_or_fail(command(directory().join(generator), args).arg(document))
            .context("cannot generate the TypeScript client")?;
        let text = fs::read_to_string(directory().join("client/sdk.gen.ts"))
            .context("the TypeScript client has no sdk.gen.ts")?;
        let functions = text.lines().filter_map(|line| line.strip_prefix("export const "));
        Ok(functions.filter_map(|line| line.split(' ').next()).map(str::to_owned).collect())
    }

    /// Installs the packages of the lock file, unless they are installed.
    pub(super) fn install() -> Result<()> {
        let note = directory().join("node_modules/installed");
        let lock = include_str!("clients/package-lock.json");
        if fs::read_to_string(&note).is_ok_and(|text| text == lock) {
            return Ok(());
        }
        let args = ["ci", "--ignore-scripts", "--no-audit", "--no-fund"];
        process::run_or_fail(&mut command("npm", args))
            .context("cannot install the generator: check the network")?;
        fs::write(note, lock).context("cannot note that npm is done")
    }

    pub(super) fn run(server: &Server, backups: &Path) -> Result<Outcome> {
        let tsc = directory().join("node_modules/.bin/tsc");
        if process::run(&mut command(tsc, ["--project", "."]))? == Outcome::Failed {
            eprintln!("error: the calls do not fit the types of the TypeScript client");
            return Ok(Outcome::Failed);
        }
        let args = ["out/calls.js", DOCUMENT, &server.address, &server.key];
        process::run(command("node", args).arg(backups))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_the_same_in_every_language() {
        assert_eq!(without_case("getTimer"), without_case("get_timer"));
        assert_ne!(without_case("getTimers"), without_case("get_timer"));
    }

    #[test]
    fn every_program_calls_every_operation_by_name() {
        let text = include_str!("../../docs/reference/openapi.json");
        let document = serde_json::from_str(text).unwrap();
        let ids = operation_ids(&document);
        assert!(ids.len() > 30, "{ids:?}");
        for (name, program) in FILES.iter().filter(|(name, _)| name.starts_with("calls.")) {
            let words: Vec<_> = program.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
            for id in &ids {
                let is_there = words.iter().any(|word| without_case(word) == without_case(id));
                assert!(is_there, "{name} does not call {id}");
            }
        }
    }
}
