//! The machine of a measurement. No figure has a meaning without it.

use std::{fs, path::Path};

use serde::Serialize;

/// Facts of a machine and of the disk that was measured.
#[derive(Debug, Clone, Serialize)]
pub struct Machine {
    /// CPUs that this process may use.
    pub cores: usize,
    /// Model name of the CPU, if the system reports it.
    pub cpu: Option<String>,
    /// Memory in bytes, if the system reports it.
    pub memory_bytes: Option<u64>,
    /// Operating system and its release.
    pub kernel: String,
    /// File system of the measured folder, if the system reports it.
    pub filesystem: Option<String>,
    /// `release` or `debug`. Figures of a debug build mean nothing.
    pub build: &'static str,
}

impl Machine {
    /// Returns the machine of this process, with the disk of `folder`.
    pub(crate) fn of(folder: &Path) -> Self {
        let system = rustix::system::uname();
        Self {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            cpu: cpu_name(),
            memory_bytes: memory_bytes(),
            kernel: format!(
                "{} {}",
                system.sysname().to_string_lossy(),
                system.release().to_string_lossy()
            ),
            filesystem: filesystem(folder),
            build: if cfg!(debug_assertions) { "debug" } else { "release" },
        }
    }
}

/// Returns `true` if this file system keeps files in memory only.
pub(crate) fn is_memory(filesystem: &str) -> bool {
    matches!(filesystem, "tmpfs" | "ramfs" | "devtmpfs")
}

fn cpu_name() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn memory_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(line.trim().trim_end_matches("kB").trim().parse::<u64>().ok()? * 1_024)
}

/// Returns the type of the file system that a folder is on.
fn filesystem(folder: &Path) -> Option<String> {
    let folder = fs::canonicalize(folder).ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    mounted(&mounts, &folder)
}

/// Returns the type of the innermost mount that contains the folder. Of two mounts at one point the
/// later one counts.
fn mounted(mounts: &str, folder: &Path) -> Option<String> {
    let holding = mounts.lines().filter_map(|line| {
        // id parent device root point options [fields] - type source options; proc(5)
        let (mount, kind) = line.split_once(" - ")?;
        let point = Path::new(mount.split(' ').nth(4)?);
        let kind = kind.split(' ').next()?;
        folder.starts_with(point).then(|| (point.components().count(), kind))
    });
    holding.max_by_key(|(depth, _)| *depth).map(|(_, kind)| kind.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_and_latest_mount_counts() {
        let mounts = "22 1 254:0 / / rw - ext4 /dev/vda rw\n\
            30 22 0:26 / /a rw,nosuid shared:1 - tmpfs tmpfs rw\n\
            31 30 0:27 / /a/b rw - overlay x rw\n\
            32 31 0:28 / /a/b rw - xfs /dev/vdb rw\n";
        for (folder, kind) in
            [("/x", "ext4"), ("/a", "tmpfs"), ("/ab", "ext4"), ("/a/b/c", "xfs"), ("/a/c", "tmpfs")]
        {
            assert_eq!(mounted(mounts, Path::new(folder)).as_deref(), Some(kind), "{folder}");
        }
        assert!(is_memory("tmpfs") && !is_memory("ext4"));
    }
}
