//! `cargo xtask release`: builds every file of a release into `dist/`.
//!
//! 1. The checkout must be clean, so that the commit names what is built, and the changelog dates the version.
//! 2. A binary of each processor is built twice: with glibc 2.28 for the packages, and static with musl for the
//!    image and the archives. Debug symbols go into files of their own. Zig is the C compiler and linker.
//! 3. The packages follow ([`crate::package`]), then the lists of parts (SBOM), the release notes from the
//!    changelog, and the checksums.
//! 4. Times in the files are that of the commit, and paths of the build machine are replaced. So two runs on the
//!    same commit give the same bytes; `--twice` builds a second time and compares.
//! 5. Packages are made again of the binaries of this machine's processor, and checked as in the test command
//!    ([`crate::package::check`]).
//!

mod notes;
mod sbom;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::debian::{self, Tool};
use crate::package::check::{Binaries, check};
use crate::package::{self, Compression, Cpu, Format, Release};
use crate::process::{self, Outcome};
use crate::steps::Steps;
use crate::venv;

/// Builds with Zig as C compiler and linker, both from PyPI.
const ZIGBUILD: [&str; 2] = ["cargo-zigbuild==0.24.1", "ziglang==0.17.1"];

/// The oldest glibc that the dynamic binaries run on.
const GLIBC: &str = "2.28";

/// The processors of a release, and the tools that know each.
const CPUS: [(Cpu, Tool); 2] = [
    (Cpu::X86_64, Tool { name: "x86_64-linux-gnu-objcopy", package: "binutils-x86-64-linux-gnu" }),
    (
        Cpu::Aarch64,
        Tool { name: "aarch64-linux-gnu-objcopy", package: "binutils-aarch64-linux-gnu" },
    ),
];

/// Options of `cargo xtask release`.
#[derive(Args)]
pub(crate) struct Options {
    /// Build everything a second time, and compare both.
    #[arg(long)]
    twice: bool,
    /// Build only for the processor of this machine.
    #[arg(long)]
    this_cpu: bool,
    /// Allow changes that are not committed, and a version without a date in the changelog.
    #[arg(long)]
    trial: bool,
}

/// Builds the release.
pub(crate) fn run(options: &Options) -> Result<Outcome> {
    let changes = process::git(&["status", "--porcelain"])?;
    ensure!(options.trial || changes.is_empty(), "commit these changes first:\n{changes}");
    let release = Release::read()?;
    let notes = notes::of(&release, options.trial)?;
    let dist = process::root().join("dist");
    let mut binaries = build(&release, &notes, &dist, options)?;
    if options.twice {
        let second = process::root().join("target/dist-second");
        binaries = build(&release, &notes, &second, options)?;
        let sums = |folder: &Path| fs::read_to_string(folder.join("SHA256SUMS"));
        let (first, second) = (sums(&dist)?, sums(&second)?);
        if first != second {
            let differ = first.lines().zip(second.lines()).filter(|(a, b)| a != b);
            differ.for_each(|(a, b)| eprintln!("differs: {a} against {b}"));
            return Ok(Outcome::Failed);
        }
        println!("both builds have the same bytes");
    }
    let mut steps = Steps::default();
    let outcome = check(&binaries, &mut steps)?;
    steps.print_times();
    Ok(outcome)
}

/// A kind of binary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Libc {
    Glibc,
    Musl,
}

fn build(release: &Release, notes: &str, dist: &Path, options: &Options) -> Result<Binaries> {
    let own_cpu = Cpu::own()?;
    let mut steps = Steps::default();
    if dist.exists() {
        fs::remove_dir_all(dist)?;
    }
    fs::create_dir_all(dist)?;
    let target = process::root().join("target/release-build");
    if target.exists() {
        fs::remove_dir_all(&target)?;
    }
    let zig = venv::install(&process::root().join("target/package/zig"), &ZIGBUILD)?;
    steps.run("install the tools of the packages", package::install_tools)?;
    let (mut root, mut own_binaries) = (None, Vec::new());
    // The first binary runs here, and prints the manual pages of all.
    let (own, others): (Vec<_>, Vec<_>) = CPUS.into_iter().partition(|(cpu, _)| *cpu == own_cpu);
    for (cpu, objcopy) in own.into_iter().chain(others.into_iter().filter(|_| !options.this_cpu)) {
        let missing = debian::install_missing(&[&objcopy], |name| {
            process::output(process::program(name).arg("--version")).is_ok()
        });
        if !missing.is_empty() {
            bail!("cannot install {} (Debian: `{}`)", objcopy.name, objcopy.package);
        }
        for libc in [Libc::Glibc, Libc::Musl] {
            let name = format!("build {} with {libc:?}", cpu.name());
            let built = steps.run(&name, || compile(cpu, libc, &zig, &target))?;
            let binary = split(cpu, libc, &built, release, dist)?;
            if cpu == own_cpu {
                own_binaries.push(binary.clone());
            }
            let root = match &root {
                Some(root) => root,
                None => root.insert(package::stage(&binary, release)?),
            };
            steps.run(&format!("package {}", cpu.name()), || match libc {
                Libc::Glibc => {
                    check_glibc(cpu, &binary)?;
                    for format in [Format::Deb, Format::Rpm] {
                        let small = Compression::SMALL;
                        package::linux_package(format, cpu, &binary, root, release, dist, small)?;
                    }
                    Ok(())
                }
                Libc::Musl => {
                    archive(cpu, &binary, root, release, dist)?;
                    package::image(cpu, &binary, release, dist, Compression::SMALL).map(drop)
                }
            })?;
        }
    }
    package::chart(release, dist)?;
    steps.run("list the parts", || sbom::write(release, dist))?;
    fs::write(dist.join("RELEASE-NOTES.md"), notes)?;
    sums(dist)?;
    steps.print_times();
    let list = process::output(process::program("ls").args(["-l", "--human-readable"]).arg(dist))?;
    println!("{list}");
    let r#static = Some(own_binaries.pop().context("no static binary")?);
    let dynamic = own_binaries.pop().context("no dynamic binary")?;
    Ok(Binaries { cpu: own_cpu, dynamic, r#static })
}

/// Returns a command of the binutils that know a processor.
fn binutils(cpu: Cpu, name: &str) -> Command {
    process::program(format!("{}-linux-gnu-{name}", cpu.name()))
}

/// Compiles a binary, and returns its path.
fn compile(cpu: Cpu, libc: Libc, zig: &Path, target: &Path) -> Result<PathBuf> {
    let (triple, with_floor) = match libc {
        Libc::Glibc => {
            let triple = format!("{}-unknown-linux-gnu", cpu.name());
            (triple.clone(), format!("{triple}.{GLIBC}"))
        }
        Libc::Musl => {
            let triple = format!("{}-unknown-linux-musl", cpu.name());
            (triple.clone(), triple)
        }
    };
    process::install_target(&triple)?;
    let cargo_home =
        process::output(process::program("sh").args(["-c", "echo ${CARGO_HOME:-$HOME/.cargo}"]))?;
    let (cargo_home, root) = (cargo_home.trim(), process::root().display());
    let remaps = [
        format!("--remap-path-prefix={cargo_home}/registry/src=/cargo"),
        format!("--remap-path-prefix={}=/duly/target", target.display()),
        format!("--remap-path-prefix={root}=/duly"),
    ];
    let c_flags = format!(
        "-ffile-prefix-map={cargo_home}/registry/src=/cargo -ffile-prefix-map={}=/duly/target",
        target.display()
    );
    let path = std::env::var("PATH").unwrap_or_default();
    let mut build =
        process::cargo(["zigbuild", "--profile", "dist", "--locked", "--package", "duly"]);
    build.args(["--target", &with_floor]);
    build.env("PATH", format!("{}:{path}", zig.join("bin").display()));
    build.env("CARGO_TARGET_DIR", target).env("CARGO_INCREMENTAL", "0");
    build.env("CARGO_ENCODED_RUSTFLAGS", remaps.join("\x1f")).env("CFLAGS", c_flags);
    process::run_or_fail(&mut build)?;
    Ok(target.join(triple).join("dist/duly"))
}

/// Moves the debug symbols of a binary into a file of the release. Returns the binary without them.
fn split(cpu: Cpu, libc: Libc, built: &Path, release: &Release, dist: &Path) -> Result<PathBuf> {
    let folder = built.parent().context("a binary has a folder")?;
    let libc = if libc == Libc::Glibc { "gnu" } else { "musl" };
    let name = format!("duly-{}-{}-linux-{libc}.debug", release.version, cpu.name());
    let symbols = folder.join(&name);
    let objcopy = || {
        let mut command = binutils(cpu, "objcopy");
        command.current_dir(folder);
        command
    };
    process::output(
        objcopy().args(["--only-keep-debug", "--compress-debug-sections"]).arg(built).arg(&symbols),
    )?;
    let binary = folder.join("stripped/duly");
    fs::create_dir_all(folder.join("stripped"))?;
    let mut strip = objcopy();
    strip.arg("--strip-all").arg(format!("--add-gnu-debuglink={name}"));
    process::output(strip.arg(built).arg(&binary))?;
    process::output(process::program("gzip").args(["-n", "-9", "--force"]).arg(&symbols))?;
    let packed = format!("{name}.gz");
    fs::copy(folder.join(&packed), dist.join(&packed))?;
    Ok(binary)
}

/// Checks that a binary needs no newer glibc.
fn check_glibc(cpu: Cpu, binary: &Path) -> Result<()> {
    let symbols = process::output(binutils(cpu, "objdump").arg("-T").arg(binary))?;
    let version = |text: &str| {
        let mut parts = text.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
        (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
    };
    let needed = symbols.split("GLIBC_").skip(1).map(|text| {
        version(text.split(|c: char| c != '.' && !c.is_ascii_digit()).next().unwrap_or_default())
    });
    let newest = needed.max().context("the binary is not dynamic")?;
    ensure!(newest <= version(GLIBC), "the binary needs glibc {}.{}", newest.0, newest.1);
    Ok(())
}

/// Makes the archive of a static binary with its pages.
fn archive(cpu: Cpu, binary: &Path, root: &Path, release: &Release, dist: &Path) -> Result<()> {
    let name = format!("duly-{}-{}-linux-musl", release.version, cpu.name());
    let parent = process::root().join("target/package/archive");
    let folder = parent.join(&name);
    if parent.exists() {
        fs::remove_dir_all(&parent)?;
    }
    fs::create_dir_all(&folder)?;
    fs::copy(binary, folder.join("duly"))?;
    for file in [
        "LICENSE",
        "README.md",
        "CHANGELOG.md",
        "deploy/package/duly.service",
        "deploy/package/duly.toml",
    ] {
        let from = process::root().join(file);
        fs::copy(&from, folder.join(from.file_name().context("a file has a name")?))?;
    }
    for pages in ["usr/share", "zsh"] {
        process::output(process::program("cp").arg("-r").arg(root.join(pages)).arg(&folder))?;
    }
    package::normalize(&folder, release)?;
    package::archive(&dist.join(format!("{name}.tar.gz")), &parent, &name, release)
}

/// Writes the checksums of all files.
fn sums(dist: &Path) -> Result<()> {
    let mut names = fs::read_dir(dist)?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<Result<Vec<_>>>()?;
    names.sort();
    let sums = process::output(process::program("sha256sum").args(&names).current_dir(dist))?;
    fs::write(dist.join("SHA256SUMS"), sums)?;
    Ok(())
}
