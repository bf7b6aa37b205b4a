//! Cost of work: time, CPU by kind of thread, memory, disk.
//!
//! CPU is user plus system time. `/proc` gives the CPU of the engine's two threads, found by name.
//! Without `/proc` their figures are 0, and only the CPU of the whole process is right.

use std::{
    fs,
    path::Path,
    sync::OnceLock,
    time::{Duration, Instant},
};

use rustix::time::{ClockId, clock_gettime};

use crate::{
    error::{Error, Result},
    latency::Latencies,
    meter::Meter,
};

/// Name of the engine thread.
const ENGINE_THREAD: &str = "duly-engine";
/// Name of the engine's sync thread.
const SYNC_THREAD: &str = "duly-sync";

/// A measurement from `begin` to `end`.
#[derive(Debug)]
pub(crate) struct Span {
    began: Instant,
    process: Duration,
    engine: Duration,
    sync: Duration,
    committed_bytes: u64,
    disk: DiskBytes,
}

/// Cost of a span.
#[derive(Debug)]
pub(crate) struct Spent {
    /// Wall-clock time.
    pub(crate) elapsed: Duration,
    /// CPU of the whole process.
    pub(crate) process: Duration,
    /// CPU of the engine thread.
    pub(crate) engine: Duration,
    /// CPU of the engine's sync thread.
    pub(crate) sync: Duration,
    /// Bytes appended to the journal.
    pub(crate) committed_bytes: u64,
    /// Bytes read from and written to the disk.
    pub(crate) disk: DiskBytes,
    /// The syncs of the engine.
    pub(crate) syncs: Latencies,
}

impl Span {
    /// Starts a span. The engine's threads must already run.
    pub(crate) fn begin() -> Self {
        let meter = Meter::of_process();
        drop(meter.take_syncs());
        Self {
            committed_bytes: meter.committed_bytes(),
            disk: DiskBytes::of_process(),
            engine: threads_cpu(ENGINE_THREAD),
            sync: threads_cpu(SYNC_THREAD),
            process: cpu(ClockId::ProcessCPUTime),
            began: Instant::now(),
        }
    }

    /// Ends the span and returns its cost.
    pub(crate) fn end(self) -> Spent {
        let elapsed = self.began.elapsed();
        let meter = Meter::of_process();
        Spent {
            elapsed,
            process: cpu(ClockId::ProcessCPUTime).saturating_sub(self.process),
            engine: threads_cpu(ENGINE_THREAD).saturating_sub(self.engine),
            sync: threads_cpu(SYNC_THREAD).saturating_sub(self.sync),
            committed_bytes: meter.committed_bytes() - self.committed_bytes,
            disk: DiskBytes::of_process().since(self.disk),
            syncs: meter.take_syncs(),
        }
    }
}

/// Bytes that this process made the disk read and write, without hits of the page cache; 0 without
/// `/proc`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct DiskBytes {
    /// Bytes read.
    pub(crate) read: u64,
    /// Bytes written.
    pub(crate) written: u64,
}

impl DiskBytes {
    /// Returns the bytes since the start of the process.
    pub(crate) fn of_process() -> Self {
        let text = fs::read_to_string("/proc/self/io").unwrap_or_default();
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|value| value.trim().parse().ok()).unwrap_or(0)
        };
        Self { read: field("read_bytes:"), written: field("write_bytes:") }
    }

    const fn since(self, before: Self) -> Self {
        Self {
            read: self.read.saturating_sub(before.read),
            written: self.written.saturating_sub(before.written),
        }
    }
}

/// Returns the CPU time that this process has used.
pub(crate) fn process_cpu() -> Duration {
    cpu(ClockId::ProcessCPUTime)
}

/// Returns the CPU time that the calling thread has used.
pub(crate) fn own_thread_cpu() -> Duration {
    cpu(ClockId::ThreadCPUTime)
}

fn cpu(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Returns the CPU time of this process's running threads with this name.
fn threads_cpu(name: &str) -> Duration {
    let Ok(threads) = fs::read_dir("/proc/self/task") else {
        return Duration::ZERO;
    };
    let of_thread = |folder: &Path| {
        let own = fs::read_to_string(folder.join("comm")).ok()?;
        // The first number is the time on a CPU, in nanoseconds.
        let statistics = fs::read_to_string(folder.join("schedstat")).ok()?;
        let nanoseconds = statistics.split_whitespace().next()?.parse().ok()?;
        (own.trim_end() == name).then(|| Duration::from_nanos(nanoseconds))
    };
    threads.flatten().filter_map(|thread| of_thread(&thread.path())).sum()
}

/// Returns the growth of resident memory since the first call of this function.
///
/// The figure can be too high: an allocator keeps memory that earlier rows freed. It is never too
/// low, because no store exists at the first call.
pub(crate) fn resident_gain_bytes() -> u64 {
    static BASE: OnceLock<u64> = OnceLock::new();
    let bytes = resident_bytes();
    bytes.saturating_sub(*BASE.get_or_init(|| bytes))
}

/// Returns the resident memory of this process; 0 without `/proc`.
pub(crate) fn resident_bytes() -> u64 {
    memory_bytes("VmRSS:")
}

/// Returns the peak resident memory of this process; 0 without `/proc`.
pub(crate) fn resident_peak_bytes() -> u64 {
    memory_bytes("VmHWM:")
}

fn memory_bytes(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = status.lines().find_map(|line| {
        line.strip_prefix(name)?.trim().trim_end_matches("kB").trim().parse::<u64>().ok()
    });
    kib.unwrap_or(0) * 1_024
}

/// Returns the bytes that the files below a folder occupy on the disk.
pub(crate) fn disk_bytes(folder: &Path) -> Result<u64> {
    use std::os::unix::fs::MetadataExt as _;
    let mut sum = 0;
    for entry in fs::read_dir(folder).map_err(Error::io("read", folder))? {
        let entry = entry.map_err(Error::io("read", folder))?;
        let metadata = match entry.metadata() {
            Ok(metadata) => metadata,
            // The engine removes files meanwhile.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(Error::io("look at", entry.path())(error)),
        };
        sum += if metadata.is_dir() { disk_bytes(&entry.path())? } else { metadata.blocks() * 512 };
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_span_uses_cpu_and_sparse_bytes_take_no_disk() {
        let span = Span::begin();
        let before = own_thread_cpu();
        while own_thread_cpu() < before + Duration::from_millis(2) {
            std::hint::spin_loop();
        }
        let spent = span.end();
        assert!(spent.process >= Duration::from_millis(2), "{spent:?}");
        assert!(spent.elapsed >= Duration::from_millis(2), "{spent:?}");

        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("inner")).unwrap();
        fs::write(folder.path().join("inner/file"), [1; 10_000]).unwrap();
        fs::File::create(folder.path().join("sparse")).unwrap().set_len(1 << 30).unwrap();
        let bytes = disk_bytes(folder.path()).unwrap();
        assert!(bytes < 1 << 20, "{bytes}");
    }
}
