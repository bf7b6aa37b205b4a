//! A place of its own for the run: namespaces of network, mounts and processes.
//!
//! The tool starts itself again through `unshare`. What is made inside (interfaces, bridges, network
//! namespaces, processes, files) belongs to the place, and the kernel takes it away when the tool
//! ends, however it ends: nothing outside has to be cleaned up or can be hit by mistake.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow, ensure};

/// Set for the tool inside: where evidence is kept.
const INSIDE: &str = "DULY_TORTURE_INSIDE";

/// Folder that is a file system of the place, in memory, for the data of the servers.
const DATA: &str = "/mnt";

/// Where `ip netns` has its names; hidden by an empty folder of the place.
const NAMES: &str = "/run/netns";

/// What a place needs.
const UNSHARE: [&str; 6] = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];

/// Where evidence is kept, outside the file system of the place; `None` outside the place.
pub(super) fn evidence() -> Option<PathBuf> {
    std::env::var_os(INSIDE).map(PathBuf::from)
}

/// Says why there can be no such place on this machine, for this user.
pub fn is_possible() -> Result<()> {
    let tried = Command::new("unshare")
        .args(UNSHARE)
        .args(["sh", "-c", "ip link set lo up && ip link add probe type bridge"])
        .stdin(Stdio::null())
        .output()
        .context("cannot start unshare (Debian: `util-linux`)")?;
    let said = String::from_utf8_lossy(&tried.stderr);
    ensure!(
        tried.status.success(),
        "no network namespaces can be made ({}); it takes root and iproute2",
        said.trim()
    );
    Ok(())
}

/// Starts the tool again inside a new place. Comes back only when that cannot be done.
pub(super) fn enter() -> anyhow::Error {
    if let Err(error) = is_possible() {
        return error;
    }
    let tool = match std::env::current_exe() {
        Ok(tool) => tool,
        Err(error) => return error.into(),
    };
    let mut command = Command::new("unshare");
    command.args(UNSHARE).arg("--").arg(tool).args(std::env::args_os().skip(1));
    command.env(INSIDE, std::env::temp_dir()).env("TMPDIR", DATA);
    anyhow!("cannot start unshare: {}", command.exec())
}

/// Makes the empty folders of the place. Inside only.
pub(super) fn furnish() -> Result<()> {
    std::fs::create_dir_all(NAMES).with_context(|| format!("cannot make {NAMES}"))?;
    for folder in [NAMES, DATA] {
        let mount = ["-t", "tmpfs", "duly-torture", folder];
        run(Command::new("mount").args(mount))?;
    }
    Ok(())
}

/// Runs a short command to its end.
pub(super) fn run(command: &mut Command) -> Result<()> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {}", command.get_program().display()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}", said.trim());
    Ok(())
}
