//! The project's own commands: `cargo xtask <command>`.
//!
//! Whatever a person or CI does to this repository beyond a plain `cargo build` is a command here,
//! one file each, so that it works the same on every machine that has Rust, git and a C compiler.
//! `cargo xtask test` is the test command; `.ci/run` is the order in which CI calls the others.
//!
//! Every command answers an [`Outcome`]: `Failed` means that the work was done
//! and its verdict is bad (a test failed, a rule is broken); an error means that the work itself
//! could not be done. Both end with exit code 1.

mod bench;
mod ci;
mod cli_docs;
mod clients;
mod contract;
mod deps;
mod fuzz_http;
mod hidden;
mod http_docs;
mod openapi;
mod planted;
mod process;
mod proto;
mod server;
mod steps;
mod test;
mod tidy;
mod torture;
mod venv;

use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use process::Outcome;

/// The project's own commands.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run all tests: unit, end-to-end, doc tests and a short torture run.
    ///
    /// Anything after the command goes to `cargo test`, and the torture run is then left out:
    /// `cargo xtask test -p duly-core`, `cargo xtask test lifecycle`.
    Test(test::Options),
    /// Kill and stop a real server under load, again and again, and check what it promised.
    #[command(disable_help_flag = true)]
    Torture(Forwarded),
    /// Plant the classic bugs in a copy of the store, one by one, and expect a test to notice each.
    Planted(planted::Options),
    /// Attack every call of a fresh server, driven by its OpenAPI document.
    FuzzHttp(fuzz_http::Options),
    /// Generate clients from the OpenAPI document, and call every operation with each.
    Clients,
    /// Measure a release build on this machine.
    #[command(disable_help_flag = true)]
    Bench(Forwarded),
    /// Everything CI does, in CI's order.
    Ci,
    /// Check the dependency policy: bans, licences, sources, advisories.
    Deps(deps::Options),
    /// Check the rules of the house that no compiler checks.
    Tidy(tidy::Options),
    /// Regenerate docs/reference/openapi.json.
    Openapi,
    /// Replace the snapshot of the public interface, with which it must stay compatible.
    Contract,
    /// Regenerate docs/reference/cli.md.
    CliDocs,
    /// Regenerate the routes of docs/reference/http.md, and record examples that do not fit.
    HttpDocs,
    /// Regenerate the code of the gRPC interface from its .proto files.
    Proto,
}

/// Arguments that are passed on as they are, `--help` included.
#[derive(Args)]
struct Forwarded {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Test(options) => test::run(&options),
        Command::Torture(forwarded) => torture::run(&forwarded.args),
        Command::Planted(options) => planted::run(&options),
        Command::FuzzHttp(options) => fuzz_http::run(&options),
        Command::Clients => clients::run(),
        Command::Bench(forwarded) => bench::run(&forwarded.args),
        Command::Ci => ci::run(),
        Command::Deps(options) => deps::run(&options),
        Command::Tidy(options) => tidy::run(&options),
        Command::Openapi => openapi::run(),
        Command::Contract => contract::run(),
        Command::CliDocs => cli_docs::run(),
        Command::HttpDocs => http_docs::run(),
        Command::Proto => proto::run(),
    };
    match outcome {
        Ok(Outcome::Passed) => ExitCode::SUCCESS,
        Ok(Outcome::Failed) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn command_line_is_consistent() {
        super::Cli::command().debug_assert();
    }
}
