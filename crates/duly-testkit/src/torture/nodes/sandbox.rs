//! Sandbox of a run: its own namespaces for network, mounts and processes.
//!
//! The tool starts itself again through `unshare`. Everything made inside (interfaces, bridges,
//! network namespaces, processes, files) belongs to the sandbox. The kernel removes it when the
//! tool ends in any way. So nothing outside needs a cleanup, and nothing outside can be changed by
//! mistake.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, anyhow, ensure};

/// Environment variable for the tool inside: the folder of the evidence.
const INSIDE: &str = "DULY_TORTURE_INSIDE";

/// Mount point of a file system in memory, for the data of the servers.
const DATA: &str = "/mnt";

/// Folder of the names of `ip netns`; an empty folder of the sandbox hides the one of the machine.
const NAMES: &str = "/run/netns";

/// Options of `unshare` for the sandbox.
const UNSHARE: [&str; 6] = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];

/// Returns the folder of the evidence, outside the file system of the sandbox; `None` outside the
/// sandbox.
pub(super) fn evidence_folder() -> Option<PathBuf> {
    std::env::var_os(INSIDE).map(PathBuf::from)
}

/// Checks that this machine and this user can create such a sandbox.
fn check_support() -> Result<()> {
    let probe = ["sh", "-c", "ip link set lo up && ip link add probe type bridge"];
    run(Command::new("unshare").args(UNSHARE).args(probe))
        .context("cannot create network namespaces: root, util-linux and iproute2 are needed")
}

/// Starts the tool again inside a new sandbox. It returns only if this fails.
pub(super) fn restart_inside() -> anyhow::Error {
    if let Err(error) = check_support() {
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

/// Mounts the empty folders of the sandbox. Call it only inside.
pub(super) fn mount_folders() -> Result<()> {
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
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}", stderr.trim());
    Ok(())
}
