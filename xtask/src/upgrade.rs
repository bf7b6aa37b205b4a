//! `cargo xtask upgrade`: tests upgrades with the binaries of older builds, which it compiles. For every night.
//!
//! 1. The build before the first release ([`BEFORE_RELEASES`]): this build opens its data directory and its Redis
//!    database, with every timer as it was. The old build then refuses both, and changes nothing.
//! 2. The previous release: the newest tag `vX.Y.Z` of another version, or this build itself until there is one.
//!    Each of the two opens the directory and the database of the other, unless the format has changed: then the
//!    older one refuses it and changes nothing.
//! 3. A server is killed with -9 again and again, and started with the other binary each time, while the checker
//!    watches.
//! 4. Nodes of both run together on a Redis Cluster, under the same faults.
//! 5. The commands and the Rust client of each work with a server of the other.
//! 6. The newer build accepts every key of the configuration of the older one.

mod builds;
mod places;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use clap::Args;

use crate::process::{self, DULY_BIN, Outcome, Profile};
use crate::server::Server;
use crate::steps::Steps;
use builds::Build;
use places::{Directory, Place, Redis};

/// The last build whose formats the first release replaces.
const BEFORE_RELEASES: &str = "f05b4a8";

/// Options of `cargo xtask upgrade`.
#[derive(Args)]
pub(crate) struct Options {
    /// The older release, as a tag or commit. Default: the newest tag of another version, or this build.
    #[arg(long)]
    from: Option<String>,
    /// Minutes of each run under kill -9.
    #[arg(long, default_value = "1")]
    minutes: String,
    /// Leave out the build before the first release.
    #[arg(long)]
    releases_only: bool,
}

/// Runs all tests, and prints a table of the results.
pub(crate) fn run(options: &Options) -> Result<Outcome> {
    let mut steps = Steps::default();
    let built = steps.run("build this version", || {
        process::build_binaries(Profile::Release, &["duly", "duly-torture"])
    })?;
    let [duly, torture] = built.as_slice() else { anyhow::bail!("cargo did not build both") };
    let checkout = process::root().to_owned();
    let new = Build { name: "this build".to_owned(), checkout, duly: duly.clone() };
    let mut results = Vec::new();
    if !options.releases_only {
        let old = steps.run("build the version before", || Build::of(BEFORE_RELEASES))?;
        for place in places()? {
            let name = format!("{} of {}", place.name(), old.name);
            let result = steps.run(&name, || upgrade(&old, &new, &*place, Older::Refuses));
            results.push((name, result));
        }
    }
    let older = match options.from.clone().or(builds::previous_release()?) {
        Some(tag) => steps.run("build the older release", || Build::of(&tag))?,
        None => {
            println!("there is no older release: this build takes its place");
            Build { name: "this build as the older release".to_owned(), ..new.clone() }
        }
    };
    steps.run("build the examples of the Rust client", || {
        older.build_examples()?;
        new.build_examples()
    })?;
    for place in places()? {
        let name = format!("{} of {}", place.name(), older.name);
        let result = steps.run(&name, || upgrade(&older, &new, &*place, Older::RefusesOrOpens));
        results.push((name, result));
    }
    let both = builds::alternating(&older.duly, &new.duly)?;
    let torture = |more: &[&str]| {
        let mut run = process::program(torture);
        run.args(["--minutes", &options.minutes, "--seed", "1"]).args(more).env(DULY_BIN, &both);
        let passed = process::run(&mut run)? == Outcome::Passed;
        ensure!(passed, "see the report above");
        Ok(())
    };
    let faults = "kill-node,stop-node,cut-from-store,move-slots";
    let nodes = ["--store", "redis-cluster", "--faults", faults];
    let runs: [(&str, &[&str]); 2] =
        [("binaries swapped under kill -9", &[]), ("nodes of both on a Redis Cluster", &nodes)];
    for (what, more) in runs {
        let name = format!("{what}, with {}", older.name);
        let result = steps.run(&name, || torture(more));
        results.push((name, result));
    }
    for (client, server) in [(&older, &new), (&new, &older)] {
        let name = format!("callers of {} with a server of {}", client.name, server.name);
        let result = steps.run(&name, || calls(client, server));
        results.push((name, result));
    }
    let name = format!("the configuration of {}", older.name);
    let result = steps.run(&name, || configuration(&older, &new));
    results.push((name, result));
    steps.print_times();
    let mut outcome = Outcome::Passed;
    for (name, result) in &results {
        match result {
            Ok(()) => println!("ok      {name}"),
            Err(error) => {
                println!("FAILED  {name}: {error:#}");
                outcome = Outcome::Failed;
            }
        }
    }
    Ok(outcome)
}

fn places() -> Result<[Box<dyn Place>; 2]> {
    Ok([Box::new(Directory::new()?), Box::new(Redis::start()?)])
}

/// The expected reaction of the older build to a place that the newer one has opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Older {
    /// It refuses the place, and changes nothing.
    Refuses,
    /// It refuses the place and changes nothing, or it opens it and finds every timer.
    RefusesOrOpens,
}

/// Fills a place with one build, opens it with the next, and tries to go back.
fn upgrade(old: &Build, new: &Build, place: &dyn Place, expected: Older) -> Result<()> {
    let server = serve(old, place)?;
    places::fill(&server)?;
    let before = places::timers(&server)?;
    ensure!(before.len() == places::TIMERS, "{} timers were scheduled", before.len());
    // Dropped, which kills it with -9.
    drop(server);
    let server = serve(new, place)?;
    let after = places::timers(&server)?;
    ensure!(after == before, "the timers differ: {before:?} and {after:?}");
    places::use_it(&server)?;
    let now = places::timers(&server)?;
    server.terminate()?;
    let digest = place.digest()?;
    match serve(old, place) {
        Ok(server) => {
            ensure!(expected == Older::RefusesOrOpens, "{} opens the newer format", old.name);
            let again = places::timers(&server)?;
            ensure!(again == now, "the timers differ after going back: {now:?} and {again:?}");
            println!("{} opens it again", old.name);
            server.terminate()
        }
        Err(refused) => {
            println!("{} refuses it", old.name);
            let reason = fs::read_to_string(log())?;
            ensure!(
                reason.contains("format"),
                "{} does not start, and not for the format: {refused:#}: {reason}",
                old.name
            );
            ensure!(place.digest()? == digest, "{} has changed what it refused", old.name);
            let server = serve(new, place)?;
            ensure!(places::timers(&server)? == now, "the timers differ after the refusal");
            server.terminate()
        }
    }
}

/// Starts a server of this build at this place, and waits until it is ready. The error has the reason for which it
/// does not start.
fn serve(build: &Build, place: &dyn Place) -> Result<Server> {
    let mut command = build.command();
    command.args(["serve", "--listen", "127.0.0.1:0"]).args(place.arguments());
    command.env("DULY_STORE__MIN_FREE_BYTES", "0").env("DULY_STORE__MIN_FREE_PERCENT", "0");
    command.stderr(fs::File::create(log())?);
    let server = Server::spawn(&mut command, String::new())?;
    places::until_ready(&server)?;
    Ok(server)
}

/// Calls a server with the commands and the Rust client of another build.
fn calls(client: &Build, server: &Build) -> Result<()> {
    let place = Directory::new()?;
    let server = serve(server, &place)?;
    let run = |args: &[&str]| {
        process::output(client.command().args(args).args(["--server", &server.address]))
    };
    run(&["schedule", "orders", "one", "--in", "1h", "--payload", r#"{"n":1}"#])?;
    run(&["reschedule", "orders", "one", "--in", "2h"])?;
    ensure!(run(&["get", "orders", "one"])?.contains("scheduled"), "get does not show it");
    ensure!(run(&["list", "orders"])?.contains("one"), "list does not show it");
    run(&["cancel", "orders", "one"])?;
    run(&["schedule", "orders", "two", "--in", "0s"])?;
    ensure!(run(&["lease", "orders", "--wait", "20s", "--ack"])?.contains("two"), "no firing");
    for args in [
        &["namespace", "list"][..],
        &["namespace", "stats", "orders"],
        &["dead", "list", "orders"],
        &["health"],
    ] {
        run(args)?;
    }
    for example in builds::EXAMPLES {
        process::output(client.example(example).env("DULY_SERVER", &server.address))?;
    }
    server.terminate()
}

/// Checks the older build's example of a configuration, with every key set to its default.
fn configuration(older: &Build, newer: &Build) -> Result<()> {
    let example = process::output(older.command().args(["config", "example"]))?;
    let is_key = |line: &str| line.starts_with(|first: char| first.is_ascii_lowercase());
    let keys = example.lines().map(|line| match line.strip_prefix('#') {
        Some(key) if is_key(key) => key,
        _ => line,
    });
    let file = process::root().join(folder("every-key.toml"));
    fs::write(&file, keys.collect::<Vec<_>>().join("\n"))?;
    let check = |build: &Build| {
        process::output(build.command().args(["config", "check", "--config"]).arg(&file))
    };
    let checked = check(older)?;
    ensure!(checked.contains(" 0 defaults"), "the example has not every key: {checked}");
    check(newer).map(drop)
}

/// Returns the log of the server that was started last.
fn log() -> PathBuf {
    process::root().join(folder("serve.log"))
}

/// Returns a folder of this command.
fn folder(name: &str) -> PathBuf {
    Path::new("target/upgrade").join(name)
}
