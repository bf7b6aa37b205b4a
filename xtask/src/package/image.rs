//! The container image: the static binary, the certificates of public authorities, and licences. The archive is the one
//! that every version of Docker and Podman loads, under the name `duly:VERSION`.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{Compression, Cpu, Release, empty, licences, normalize};
use crate::process;

/// The user of the image; its name is in the image's `/etc/passwd`.
pub(super) const USER: u32 = 10_001;
/// Certificates of public authorities on the machine that builds the image (Debian: `ca-certificates`).
const AUTHORITIES: &str = "etc/ssl/certs/ca-certificates.crt";

/// Makes an archive with the image. Returns its path.
pub(crate) fn image(
    cpu: Cpu,
    binary: &Path,
    release: &Release,
    out: &Path,
    compression: Compression,
) -> Result<PathBuf> {
    let root = empty("image-root")?;
    let write = |path: &str, text: &str| -> Result<()> {
        let file = root.join(path);
        fs::create_dir_all(file.parent().context("a file has a folder")?)?;
        fs::write(file, text).with_context(|| format!("cannot write {path}"))
    };
    write("etc/passwd", &format!("duly:x:{USER}:{USER}:Duly:/var/lib/duly:/usr/sbin/nologin\n"))?;
    write("etc/group", &format!("duly:x:{USER}:\n"))?;
    write("etc/nsswitch.conf", "hosts: files dns\n")?;
    let authorities = fs::read_to_string(Path::new("/").join(AUTHORITIES))
        .context("no certificates of authorities: install them (Debian: `ca-certificates`)")?;
    write(AUTHORITIES, &authorities)?;
    fs::create_dir_all(root.join("usr/bin"))?;
    fs::copy(binary, root.join("usr/bin/duly")).context("no binary")?;
    write("usr/share/doc/duly/third-party-licences", &licences::of_dependencies()?)?;
    fs::copy(process::root().join("LICENSE"), root.join("usr/share/doc/duly/LICENSE"))?;
    let data = root.join("var/lib/duly");
    let own = [data.join("backups"), data, root.join("run/duly")];
    for folder in &own {
        fs::create_dir_all(folder)?;
    }
    normalize(&root, release)?;
    for folder in own {
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700))?;
        chown(&folder, Some(USER), Some(USER)).context("the image is made by root")?;
    }
    let layout = empty("image")?.join("layout");
    let tag = format!("{}:{}", layout.display(), release.version);
    let umoci = |args: &[&str]| {
        let mut umoci = process::program("umoci");
        process::output(umoci.env("SOURCE_DATE_EPOCH", &release.epoch).args(args)).map(drop)
    };
    umoci(&["init", "--layout", &layout.display().to_string()])?;
    umoci(&["new", "--image", &tag])?;
    let created = format!("@{}", release.epoch);
    let created = process::output(process::program("date").args(["-u", "-Is", "-d", &created]))?;
    let history = format!("--history.created={}", created.trim());
    umoci(&["insert", &history, "--image", &tag, &root.display().to_string(), "/"])?;
    let config = [
        format!("--created={}", created.trim()),
        history,
        format!("--architecture={}", cpu.debian()),
        "--os=linux".to_owned(),
        format!("--config.user={USER}:{USER}"),
        "--config.entrypoint=/usr/bin/duly".to_owned(),
        "--config.cmd=serve".to_owned(),
        "--config.workingdir=/var/lib/duly".to_owned(),
        "--config.volume=/var/lib/duly".to_owned(),
        "--config.exposedports=3859/tcp".to_owned(),
        "--config.stopsignal=SIGTERM".to_owned(),
        "--config.env=PATH=/usr/bin".to_owned(),
        "--config.env=DULY_STORE__DATA=/var/lib/duly/data".to_owned(),
        "--config.env=DULY_STORE__BACKUP_DIR=/var/lib/duly/backups".to_owned(),
        "--config.label=org.opencontainers.image.title=duly".to_owned(),
        "--config.label=org.opencontainers.image.licenses=Apache-2.0".to_owned(),
        format!("--config.label=org.opencontainers.image.version={}", release.version),
        format!("--config.label=org.opencontainers.image.revision={}", release.commit),
    ];
    let config: Vec<_> =
        ["config", "--image", &tag].into_iter().chain(config.iter().map(String::as_str)).collect();
    umoci(&config)?;
    umoci(&["gc", "--layout", &layout.display().to_string()])?;
    let file = out.join(format!("duly-{}-image-{}.tar", release.version, cpu.debian()));
    let to = format!("docker-archive:{}:duly:{}", file.display(), release.version);
    let from = format!("oci:{tag}");
    process::output(process::program("skopeo").args(["copy", "--quiet", &from, &to]))?;
    process::output(
        process::program("gzip").args(["-n", compression.image, "--force"]).arg(&file),
    )?;
    Ok(file.with_added_extension("gz"))
}
