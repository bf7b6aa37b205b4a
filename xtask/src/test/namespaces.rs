//! Whether network namespaces can be made here, which the torture of several nodes takes.

use crate::process;

/// What is to be possible: what `duly-torture` starts itself with.
const PLACE: [&str; 6] = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];

/// Why they cannot be made; `None` when they can.
pub(super) fn missing() -> Option<String> {
    let mut command = process::program("unshare");
    match command.args(PLACE).args(["ip", "link", "set", "lo", "up"]).output() {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Some(format!("cannot start unshare (Debian: `util-linux`): {error}")),
    }
}

/// Whether they have to be there: in CI a test that is skipped is a failure.
pub(super) fn are_expected() -> bool {
    std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false")
}

/// Says loudly what is not run.
pub(super) fn say_skipped(what: &str, why: &str) {
    let bar = "!".repeat(80);
    eprintln!("{bar}");
    eprintln!("SKIPPED: {what}: no network namespaces can be made here ({why}).");
    eprintln!("It takes Linux, root and iproute2. What happens to several nodes when machines and");
    eprintln!("networks fail is not looked at in this run.");
    eprintln!("{bar}");
}
