//! The `.deb` and the `.rpm`, of one list of files: `deploy/package/nfpm.yaml`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{Compression, Cpu, Release, empty, licences, nfpm, normalize};
use crate::process;

/// A format of packages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Deb,
    Rpm,
}

/// Licence of the Debian package, in the form of its policy.
const COPYRIGHT: &str = "\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: duly

Files: *
Copyright: 2026 The Duly developers
License: Apache-2.0
 On Debian systems the text of the licence is in
 /usr/share/common-licenses/Apache-2.0.
";

/// Makes the folder with the files that both formats have besides the binary. `printer` is a binary that runs
/// here: it prints its manual pages and completions.
pub(crate) fn stage(printer: &Path, release: &Release) -> Result<PathBuf> {
    let root = empty("root")?;
    let folder = |path: &str| -> Result<PathBuf> {
        let folder = root.join(path);
        fs::create_dir_all(&folder)?;
        Ok(folder)
    };
    let man = folder("usr/share/man/man1")?;
    process::output(process::program(printer).args(["man", "--dir"]).arg(&man))?;
    let completions = [
        ("bash", "usr/share/bash-completion/completions", "duly"),
        // Debian and RPM have places of their own for it.
        ("zsh", "zsh", "_duly"),
        ("fish", "usr/share/fish/vendor_completions.d", "duly.fish"),
    ];
    for (shell, path, name) in completions {
        let text = process::output(process::program(printer).args(["completions", shell]))?;
        fs::write(folder(path)?.join(name), text)?;
    }
    let doc = folder("usr/share/doc/duly")?;
    for pages in ["guide", "operate", "reference"] {
        let from = process::root().join("docs").join(pages);
        process::output(process::program("cp").arg("-r").arg(from).arg(&doc))?;
    }
    fs::write(doc.join("copyright"), COPYRIGHT)?;
    fs::write(doc.join("third-party-licences"), licences::of_dependencies()?)?;
    fs::copy(process::root().join("CHANGELOG.md"), doc.join("changelog"))?;
    fs::write(doc.join("changelog.Debian"), debian_changelog(release)?)?;
    let compressed = fs::read_dir(&man)?.map(|entry| Ok(entry?.path()));
    let changelogs =
        ["changelog", "changelog.Debian", "third-party-licences"].map(|name| Ok(doc.join(name)));
    for file in compressed.chain(changelogs).collect::<Result<Vec<_>>>()? {
        process::output(process::program("gzip").args(["-n", "-9"]).arg(file))?;
    }
    normalize(&root, release)?;
    Ok(root)
}

/// Returns the Debian changelog: one entry, which refers to the changelog.
fn debian_changelog(release: &Release) -> Result<String> {
    let date = format!("@{}", release.epoch);
    let date = process::output(process::program("date").args(["-u", "-R", "-d", &date]))?;
    Ok(format!(
        "duly ({}-1) stable; urgency=medium\n\n  * See changelog.gz.\n\n -- {}  {}",
        release.version, MAINTAINER, date
    ))
}

/// The maintainer, as in `nfpm.yaml`.
const MAINTAINER: &str = "The Duly developers <packages@duly.example>";

/// Makes a package of a binary and the folder of [`stage`]. Returns its path.
pub(crate) fn linux_package(
    format: Format,
    cpu: Cpu,
    binary: &Path,
    root: &Path,
    release: &Release,
    out: &Path,
    compression: Compression,
) -> Result<PathBuf> {
    let template = fs::read_to_string(process::root().join("deploy/package/nfpm.yaml"))?;
    let date = format!("@{}", release.epoch);
    let date = process::output(process::program("date").args(["-u", "-Is", "-d", &date]))?;
    let path = |path: &Path| path.display().to_string();
    let config = [
        ("${ARCH}", cpu.debian().to_owned()),
        ("${VERSION}", release.version.clone()),
        ("${DATE}", date.trim().to_owned()),
        ("${BINARY}", path(binary)),
        ("${ROOT}", path(root)),
        ("${COMPRESSION}", compression.package.to_owned()),
    ];
    let config =
        config.iter().fold(template, |text, (variable, value)| text.replace(variable, value));
    let file = process::root().join("target/package/nfpm.yaml");
    fs::write(&file, config).context("cannot write the configuration of nfpm")?;
    let (packager, name) = match format {
        Format::Deb => ("deb", format!("duly_{}-1_{}.deb", release.version, cpu.debian())),
        Format::Rpm => ("rpm", format!("duly-{}-1.{}.rpm", release.version, cpu.name())),
    };
    let package = out.join(name);
    let mut nfpm = nfpm()?;
    nfpm.env("SOURCE_DATE_EPOCH", &release.epoch).args(["package", "--packager", packager]);
    process::output(nfpm.arg("--config").arg(&file).arg("--target").arg(&package))?;
    Ok(package)
}
