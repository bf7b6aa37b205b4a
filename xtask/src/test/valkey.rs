//! Valkey: runs tests of the Redis store again on a Valkey server.
//!
//! Debian 12 has Valkey only in its backports. So the package is fetched from the mirrors that apt
//! knows, and unpacked below `target/`. The server runs from there: nothing is installed, and no setting
//! of apt changes. The libraries that it needs came with the Redis package. If Valkey is not available,
//! the step is skipped by name. That is no failure; it only tests fewer differences from Redis 7.0.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::debian::{self, apt};
use crate::process;

/// The variable with the server that the store's tests start in place of `redis-server`.
pub(super) const SERVER_VARIABLE: &str = "DULY_REDIS_SERVER";

/// The crate whose tests run on Valkey.
pub(super) const CRATE: &str = "duly-store-redis";
/// Its test binary of which [`MODULES`] run with all other tests; the rest runs every night.
pub(super) const TESTS: &str = "duly-store-redis it";
/// The modules in which a server of Valkey can differ from Redis: its replies and scripts, its settings and
/// version, its files after a restart, its Cluster and its replicas.
pub(super) const MODULES: [&str; 5] =
    ["conformance::single", "emptied", "failover", "marker", "opening"];

/// The package that contains the server.
const PACKAGE: &str = "valkey-tools";
/// The server's path in the package. The binary acts as a server if its file name is that of one.
const BINARY: &str = "usr/bin/valkey-check-rdb";

/// Returns a server that runs here: the installed one, the one fetched before, or one fetched now.
pub(super) fn find() -> Result<PathBuf> {
    let installed = PathBuf::from("valkey-server");
    let fetched = directory().join("valkey-server");
    for server in [&installed, &fetched] {
        if runs(server) {
            return Ok(server.clone());
        }
    }
    fetch(&fetched)?;
    if !runs(&fetched) {
        bail!("the package that was fetched does not run here");
    }
    Ok(fetched)
}

fn directory() -> PathBuf {
    process::root().join("target/valkey")
}

fn runs(server: &Path) -> bool {
    process::output(process::program(server).arg("--version")).is_ok()
}

fn fetch(server: &Path) -> Result<()> {
    let directory = directory();
    let unpacked = match debian::unpack(PACKAGE, &directory, &[]) {
        Ok(unpacked) => unpacked,
        Err(_) => {
            let backports = backport_options(&directory)?;
            process::output(apt(&directory).args(&backports).arg("update"))?;
            debian::unpack(PACKAGE, &directory, &backports)?
        }
    };
    fs::copy(unpacked.join(BINARY), server).context("the package has no server")?;
    Ok(())
}

/// Returns options that make apt use package lists of the backports, which are kept apart from those
/// of the machine.
fn backport_options(directory: &Path) -> Result<Vec<String>> {
    let format = ["--no-release-info", "--format", "$(SITE) $(RELEASE) $(COMPONENT)"];
    let known = process::output(apt(directory).arg("indextargets").args(format))?;
    let source = backports(&known).context("apt knows no release that has backports")?;
    let lists = directory.join("lists");
    fs::create_dir_all(lists.join("partial"))?;
    let sources = directory.join("sources.list");
    fs::write(&sources, format!("{source}\n"))?;
    let options = [
        format!("Dir::Etc::sourcelist={}", sources.display()),
        "Dir::Etc::sourceparts=/dev/null".to_owned(),
        format!("Dir::State::lists={}", lists.display()),
        format!("Dir::Cache={}", directory.join("cache").display()),
    ];
    Ok(options.into_iter().flat_map(|option| ["-o".into(), option]).collect())
}

/// Returns the source line of the backports: the release without a suffix, from the same mirror.
fn backports(known: &str) -> Option<String> {
    known.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        let (site, release, component) = (words.next()?, words.next()?, words.next()?);
        let is_plain = component == "main" && !release.contains(['-', '/']);
        is_plain.then(|| format!("deb {site} {release}-backports main"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backports_come_from_the_mirror_of_the_release() {
        let known = "\
http://mirror.example/debian-security bookworm-security main
http://mirror.example/debian bookworm-updates main
http://mirror.example/debian bookworm contrib
http://mirror.example/debian bookworm main
";
        let expected = "deb http://mirror.example/debian bookworm-backports main";
        assert_eq!(backports(known).as_deref(), Some(expected));
        assert_eq!(backports(""), None);
    }
}
