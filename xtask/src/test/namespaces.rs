//! Checks that network namespaces can be created here. The torture run of several nodes needs them.

use crate::process;

/// The `unshare` options that must work: `duly-torture` starts itself with them.
const UNSHARE_OPTIONS: [&str; 6] =
    ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];

/// Returns the reason why namespaces cannot be created; `None` if they can.
pub(super) fn missing() -> Option<String> {
    let mut command = process::program("unshare");
    match command.args(UNSHARE_OPTIONS).args(["ip", "link", "set", "lo", "up"]).output() {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Some(format!("cannot start unshare (Debian: `util-linux`): {error}")),
    }
}

/// Returns `true` if namespaces are required: in CI a skipped test is a failure.
pub(super) fn are_required() -> bool {
    std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false")
}

/// Prints a prominent warning with the name of the skipped step.
pub(super) fn warn_skipped(what: &str, why: &str) {
    let bar = "!".repeat(80);
    eprintln!("{bar}");
    eprintln!("SKIPPED: {what}: cannot create network namespaces here ({why}).");
    eprintln!(
        "Linux, root and iproute2 are needed. The behaviour of several nodes while machines and"
    );
    eprintln!("networks fail is not tested in this run.");
    eprintln!("{bar}");
}
