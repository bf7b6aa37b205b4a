//! The project's own commands: `cargo xtask <command>`.
//!
//! Every task of a developer or of CI beyond a plain `cargo build` is a command here. Commands of more
//! than one call have a file each. So it works the same on every machine that has Rust, git and a C compiler. `cargo xtask
//! test` is the test command; `.ci/run` has the order in which CI calls the others.
//!
//! Every command returns an [`Outcome`]. `Failed` means that the work was done and found a fault: a test
//! failed, or a rule is broken. An error means that the work itself could not be done. Both end with
//! exit code 1.

mod bench;
mod clients;
mod contract;
mod debian;
mod deps;
mod fuzz_http;
mod hidden;
mod http_docs;
mod nightly;
mod package;
mod planted;
mod process;
mod release;
mod server;
mod static_binary;
mod steps;
mod test;
mod tidy;
mod timings;
mod torture;
mod upgrade;
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
    /// Other arguments than `--since` go to `cargo test`, and only its tests run: `cargo xtask test -p duly-core`,
    /// `cargo xtask test lifecycle`.
    Test(test::Options),
    /// Kill and stop a real server under load repeatedly, and check its promises.
    #[command(disable_help_flag = true)]
    Torture(Forwarded),
    /// Plant known bugs in a copy of the store, one by one, and expect a test to fail for each.
    Planted(planted::Options),
    /// Fuzz every call of a fresh server, driven by its OpenAPI document.
    FuzzHttp(fuzz_http::Options),
    /// Generate clients from the OpenAPI document, and call every operation with each client.
    Clients(clients::Options),
    /// Measure a release build on this machine.
    #[command(disable_help_flag = true)]
    Bench(Forwarded),
    /// Make all packages of this checkout, and check them with the tools of their users.
    Package,
    /// Build every file of a release into dist/.
    Release(release::Options),
    /// Test upgrades and mixed versions with the binaries of an older build (nightly).
    Upgrade(upgrade::Options),
    /// Install the programs that the tests need.
    Tools,
    /// Run all steps of CI, in CI's order.
    Ci {
        /// Test only what the changes since this commit can affect. The checks look at everything.
        #[arg(long, value_name = "COMMIT", conflicts_with = "timings")]
        since: Option<String>,
        /// Measure every step, compiler and test, and print tables of the times.
        #[arg(long)]
        timings: bool,
    },
    /// Run what takes too long for CI, each step even if another has failed.
    Nightly,
    /// Check the dependency policy: bans, licences, sources, and by option advisories.
    Deps(deps::Options),
    /// Check the project's rules that the compiler does not check.
    Tidy(tidy::Options),
    /// Regenerate docs/reference/openapi.json.
    Openapi,
    /// Replace the snapshot of the public interface. Later versions must stay compatible with it.
    Contract,
    /// Regenerate docs/reference/cli.md.
    CliDocs,
    /// Regenerate the routes of docs/reference/http.md, and record the examples whose responses differ.
    HttpDocs(http_docs::Options),
    /// Regenerate the code of the gRPC interface from its .proto files.
    Proto,
}

/// Arguments that are passed on unchanged, `--help` included.
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
        Command::Clients(options) => clients::run(&options),
        Command::Bench(forwarded) => bench::run(&forwarded.args),
        // The steps and their order are in this script, which needs nothing built beforehand.
        Command::Ci { timings: true, .. } => timings::run(),
        Command::Ci { timings: false, since } => {
            let since = since.map(|commit| format!("--since={commit}"));
            process::run(process::program("bash").arg(".ci/run").args(since))
        }
        Command::Tools => Ok(test::tools::install()),
        Command::Nightly => nightly::run(),
        Command::Release(options) => release::run(&options),
        Command::Upgrade(options) => upgrade::run(&options),
        Command::Package => package::check::run(),
        Command::Deps(options) => deps::run(&options),
        Command::Tidy(options) => tidy::run(&options),
        Command::Openapi => hidden::regenerate("__openapi", "docs/reference/openapi.json"),
        Command::Contract => contract::run(),
        Command::CliDocs => hidden::regenerate("__cli-docs", "docs/reference/cli.md"),
        Command::HttpDocs(options) => http_docs::run(&options),
        // The test that compares the generated code with the `.proto` files writes it in this mode.
        Command::Proto => {
            let test = ["test", "--quiet", "-p", "duly-api", "--test", "it"];
            process::run(process::cargo(test).env("DULY_REGENERATE", "1"))
        }
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
