//! Clients of Go and Java: generated from the document as the server publishes it, compiled, and used to
//! schedule, read, cancel, lease and settle.
//!
//! `oapi-codegen` and `ogen` come as Go modules, `openapi-generator` from Maven, in the versions given here.
//! A client whose compiler is missing is skipped by name; in the nightly command it fails.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{PUBLISHED, directory};
use crate::nightly::NIGHTLY;
use crate::process::{self, Outcome};
use crate::server::Server;

/// The generators.
const OAPI: &str = "github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2";
const OGEN: &str = "github.com/ogen-go/ogen/cmd/ogen@v1.24.0";
const OPENAPI: &str = "7.25.0";
/// The module of a Go client and of the program that uses it.
const MODULE: &str = "module clients\n\ngo 1.24\n\nrequire (\n\
                      \tgithub.com/oapi-codegen/runtime v1.9.0\n\
                      \tgithub.com/ogen-go/ogen v1.24.0\n\
                      \tgopkg.in/validator.v2 v2.0.1\n)\n";

/// A generated client.
struct Client {
    name: &'static str,
    /// Its folder below `target/clients`.
    folder: &'static str,
    /// The path of the program in the folder, and its text.
    program: (&'static str, &'static str),
    /// The programs that generate and compile it.
    needs: &'static [&'static str],
    generate: fn(&Path) -> Result<()>,
    run: fn(&Path, &Server) -> Result<()>,
}

const CLIENTS: [Client; 4] = [
    Client {
        name: "Go client of oapi-codegen",
        folder: "oapi",
        program: ("main.go", include_str!("oapi/main.go")),
        needs: &["go"],
        generate: |folder| {
            fs::create_dir_all(folder.join("api"))?;
            let parts = ["-generate", "types,client", "-package", "api", "-o", "api/client.go"];
            process::run_or_fail(
                command(folder, "go").args(["run", OAPI]).args(parts).arg(published()),
            )
        },
        run: run_go,
    },
    Client {
        name: "Go client of ogen",
        folder: "ogen",
        program: ("main.go", include_str!("ogen/main.go")),
        needs: &["go"],
        generate: |folder| {
            let parts = ["--target", "api", "--package", "api", "--clean"];
            process::run_or_fail(
                command(folder, "go").args(["run", OGEN]).args(parts).arg(published()),
            )
        },
        run: run_go,
    },
    Client {
        name: "Go client of openapi-generator",
        folder: "openapi",
        program: ("main.go", include_str!("openapi/main.go")),
        needs: &["go", "java", "mvn"],
        generate: |folder| {
            let more = "--additional-properties=packageName=api,withGoMod=false";
            openapi_generator(folder, &["-g", "go", "-o", "api", more])
        },
        run: run_go,
    },
    Client {
        name: "Java client of openapi-generator",
        folder: "java",
        program: ("src/main/java/Calls.java", include_str!("java/Calls.java")),
        needs: &["java", "mvn"],
        generate: |folder| {
            openapi_generator(folder, &["-g", "java", "--library", "native", "-o", "."])
        },
        run: run_java,
    },
];

/// Generates, compiles and runs each client, even if another has failed.
pub(super) fn check(duly: &Path) -> Outcome {
    let mut outcome = Outcome::Passed;
    let is_nightly = std::env::var_os(NIGHTLY).is_some();
    for client in &CLIENTS {
        let is_present = |name: &str| process::program(name).arg("version").output().is_ok();
        let checked = match client.missing(is_nightly, is_present) {
            Ok(None) => client.check(duly),
            Ok(Some(missing)) => {
                eprintln!("SKIPPED: the {}: no `{missing}` on this machine", client.name);
                Ok(())
            }
            Err(error) => Err(error),
        };
        if let Err(error) = checked {
            eprintln!("error: the {}: {error:#}", client.name);
            outcome = Outcome::Failed;
        }
    }
    outcome
}

impl Client {
    /// Returns a program that the client needs and the machine lacks, for which it is skipped. In the nightly command
    /// that is an error.
    fn missing(
        &self,
        is_nightly: bool,
        is_present: impl Fn(&str) -> bool,
    ) -> Result<Option<&'static str>> {
        let missing = self.needs.iter().copied().find(|name| !is_present(name));
        if let Some(missing) = missing.filter(|_| is_nightly) {
            bail!("no `{missing}` on this machine, and the nightly command checks every client");
        }
        Ok(missing)
    }

    fn check(&self, duly: &Path) -> Result<()> {
        let folder = directory().join(self.folder);
        if folder.exists() {
            fs::remove_dir_all(&folder).context("cannot remove the old client")?;
        }
        fs::create_dir_all(&folder)?;
        (self.generate)(&folder).context("cannot generate it")?;
        let program = folder.join(self.program.0);
        fs::create_dir_all(program.parent().unwrap_or(&folder))?;
        fs::write(program, self.program.1)?;
        let server = Server::start(duly, &directory(), None)?;
        (self.run)(&folder, &server)?;
        server.stop()
    }
}

fn published() -> PathBuf {
    process::root().join(PUBLISHED)
}

fn run(folder: &Path, program: &str, args: &[&str]) -> Result<()> {
    process::run_or_fail(command(folder, program).args(args))
}

fn command(folder: &Path, program: &str) -> Command {
    let mut command = process::program(program);
    command.current_dir(folder);
    command
}

fn run_go(folder: &Path, server: &Server) -> Result<()> {
    fs::write(folder.join("go.mod"), MODULE)?;
    run(folder, "go", &["mod", "tidy"]).context("cannot get its modules: check the network")?;
    run(folder, "go", &["build", "./..."]).context("it does not compile")?;
    run(folder, "go", &["run", ".", &server.address, &server.key])
}

fn run_java(folder: &Path, server: &Server) -> Result<()> {
    run(folder, "mvn", &["-q", "-B", "compile"]).context("it does not compile")?;
    let list = ["-q", "-B", "dependency:build-classpath", "-Dmdep.outputFile=classpath"];
    run(folder, "mvn", &list)?;
    let libraries = fs::read_to_string(folder.join("classpath"))?;
    let classes = format!("target/classes:{}", libraries.trim());
    run(folder, "java", &["-cp", &classes, "Calls", &server.address, &server.key])
}

/// Runs openapi-generator, without the tests and pages that it makes for a client of its own.
fn openapi_generator(folder: &Path, args: &[&str]) -> Result<()> {
    let jar = jar()?;
    let parts = "apiTests=false,modelTests=false,apiDocs=false,modelDocs=false";
    let mut java = command(folder, "java");
    java.arg("-jar").arg(jar).args(["generate", "--global-property", parts, "-i"]).arg(published());
    // Its log names each file that it writes.
    process::output(java.args(args)).map(drop)
}

/// Returns openapi-generator. Maven fetches it once.
fn jar() -> Result<PathBuf> {
    let jar = directory().join(format!("openapi-generator-cli-{OPENAPI}.jar"));
    if !jar.exists() {
        let artifact = format!("-Dartifact=org.openapitools:openapi-generator-cli:{OPENAPI}");
        let args = ["-q", "-B", "dependency:copy", &artifact, "-DoutputDirectory=."];
        run(&directory(), "mvn", &args).context("cannot get it: check the network")?;
    }
    Ok(jar)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_skips_a_client_but_not_nightly() {
        for client in &CLIENTS {
            for needed in client.needs {
                let is_present = |name: &str| name != *needed;
                assert_eq!(client.missing(false, is_present).unwrap(), Some(*needed));
                let error = client.missing(true, is_present).unwrap_err();
                assert!(error.to_string().contains(&format!("no `{needed}`")), "{error}");
            }
            assert_eq!(client.missing(true, |_| true).unwrap(), None);
        }
    }
}
