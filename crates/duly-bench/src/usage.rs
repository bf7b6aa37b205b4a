//! Memory and CPU of processes, from `/proc`.

use std::time::Duration;

use anyhow::{Context, Result};

/// Ticks per second in `/proc/<pid>/stat`: part of Linux' interface to programs.
const TICKS_PER_SECOND: f64 = 100.0;

/// A mebibyte.
pub(crate) const MIB: f64 = 1_048_576.0;

/// Returns the resident memory of a process, in bytes.
pub(crate) fn resident_bytes(pid: u32) -> Result<u64> {
    memory_bytes(&status(pid)?, "VmRSS:")
}

/// Returns the peak resident memory since [`forget_peak`], in bytes.
pub(crate) fn peak_bytes(pid: u32) -> Result<u64> {
    memory_bytes(&status(pid)?, "VmHWM:")
}

/// Resets the peak. If the kernel does not allow it, the peak is that of the whole life of the
/// process: too high, never too low.
pub(crate) fn forget_peak(pid: u32) {
    std::fs::write(format!("/proc/{pid}/clear_refs"), "5").ok();
}

/// Returns the bytes that a process has written to disks.
pub(crate) fn written_bytes(pid: u32) -> Result<u64> {
    let io = std::fs::read_to_string(format!("/proc/{pid}/io"))?;
    let line = io.lines().find_map(|line| line.strip_prefix("write_bytes:"));
    Ok(line.context("the process statistics have no written bytes")?.trim().parse()?)
}

/// Returns the CPU time (user and system) that a process has used.
pub(crate) fn cpu(pid: u32) -> Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let ticks = cpu_ticks(&stat).context("the process statistics have no CPU time")?;
    Ok(Duration::from_secs_f64(ticks / TICKS_PER_SECOND))
}

/// Returns the CPU time that this process, the load generator, has used.
pub(crate) fn own_cpu() -> Result<Duration> {
    cpu(std::process::id())
}

/// A measurement of resources from `begin` to `end`.
#[derive(Debug)]
pub(crate) struct Using {
    pid: Option<u32>,
    before: Duration,
    own_before: Duration,
}

/// Resources used during a measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Used {
    /// CPU and peak resident bytes of the server, if its process is known.
    pub(crate) server: Option<(Duration, u64)>,
    /// CPU of this process.
    pub(crate) own_cpu: Duration,
}

impl Using {
    /// Starts to measure this process and the server with this pid.
    pub(crate) fn begin(pid: Option<u32>) -> Self {
        pid.into_iter().for_each(forget_peak);
        let before = pid.and_then(|pid| cpu(pid).ok()).unwrap_or_default();
        Self { pid, before, own_before: own_cpu().unwrap_or_default() }
    }

    /// Ends the measurement. Returns `None` if the system does not report the figures.
    pub(crate) fn end(self) -> Option<Used> {
        let of_server =
            |pid| Some((cpu(pid).ok()?.saturating_sub(self.before), peak_bytes(pid).ok()?));
        let own_cpu = own_cpu().ok()?.saturating_sub(self.own_before);
        Some(Used { server: self.pid.and_then(of_server), own_cpu })
    }
}

fn status(pid: u32) -> Result<String> {
    Ok(std::fs::read_to_string(format!("/proc/{pid}/status"))?)
}

fn memory_bytes(status: &str, name: &str) -> Result<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let line = line.with_context(|| format!("no {name} in the process status"))?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse()?;
    Ok(kib * 1_024)
}

/// Reads the 14th and 15th field. The 2nd field is a name in brackets that can contain anything.
fn cpu_ticks(stat: &str) -> Option<f64> {
    let (_, behind_the_name) = stat.rsplit_once(')')?;
    let mut fields = behind_the_name.split_whitespace().skip(11);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_are_found_behind_an_odd_name() {
        let stat = "7 (a) b (c) S 1 7 7 0 -1 4194560 100 0 2 0 250 50 0 0 20 0 9 0 300 1 1";
        assert_eq!(cpu_ticks(stat), Some(300.0));
        assert_eq!(cpu_ticks("7 (a"), None);
        let status = "Name:\tx\nVmHWM:\t     200 kB\nVmRSS:\t     100 kB\n";
        assert_eq!(memory_bytes(status, "VmRSS:").unwrap(), 102_400);
        assert!(memory_bytes(status, "VmSwap:").is_err());
    }

    #[test]
    fn this_process_uses_something() {
        let pid = std::process::id();
        let used = Using::begin(Some(pid)).end().unwrap();
        assert!(used.server.unwrap().1 > 0);
        forget_peak(pid);
        let resident = resident_bytes(pid).unwrap();
        assert!(resident > 0 && peak_bytes(pid).unwrap() > 0);
        assert!(own_cpu().unwrap() < Duration::from_secs(3_600));
    }
}
