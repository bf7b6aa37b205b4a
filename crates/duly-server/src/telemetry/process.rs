//! Reads the system's information about this process.

/// Returns the resident memory in bytes; `None` without procfs.
pub(super) fn resident_bytes() -> Option<u64> {
    parse_resident(&std::fs::read_to_string("/proc/self/status").ok()?)
}

/// Parses the line `VmRSS:      1234 kB`.
fn parse_resident(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim_end().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resident_memory_is_read_from_its_line() {
        let check = |status, expected| assert_eq!(parse_resident(status), expected, "{status:?}");
        check("Name:\tduly\nVmHWM:\t 9 kB\nVmRSS:\t    1234 kB\nThreads: 1\n", Some(1234 * 1024));
        check("Name:\tduly\n", None);
        check("VmRSS:\t12 MB\n", None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_takes_some() {
        assert!(resident_bytes().is_some_and(|bytes| bytes > 100_000));
    }
}
