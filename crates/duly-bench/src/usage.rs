//! What work costs: time, CPU by kind of thread, memory, disk.
//!
//! CPU is user and system time together. The engine's two threads are told apart by their names,
//! from `/proc`; where there is none their share is 0 and only the process's sum is right.

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

/// Name of the engine's thread.
const ENGINE_THREAD: &str = "duly-engine";
/// Name of its syncing thread.
const SYNC_THREAD: &str = "duly-sync";

/// Measures from its making on.
#[derive(Debug)]
pub(crate) struct Span {
    began: Instant,
    process: Duration,
    engine: Duration,
    sync: Duration,
    committed_bytes: u64,
    disk: DiskBytes,
}

/// What a span took.
#[derive(Debug)]
pub(crate) struct Spent {
    /// By the clock on the wall.
    pub(crate) elapsed: Duration,
    /// CPU of the whole process.
    pub(crate) process: Duration,
    /// CPU of the engine's thread.
    pub(crate) engine: Duration,
    /// CPU of its syncing thread.
    pub(crate) sync: Duration,
    /// Bytes appended to the journal.
    pub(crate) committed_bytes: u64,
    /// Bytes that came from and went to the disk.
    pub(crate) disk: DiskBytes,
    /// The engine's own syncs.
    pub(crate) syncs: Latencies,
}

impl Span {
    /// Begins now. The threads that are to be told apart must be running.
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

    /// Ends now.
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

/// Bytes that this process made the disk read and write, past the page cache; 0 where `/proc` does
/// not say.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct DiskBytes {
    /// Read from it.
    pub(crate) read: u64,
    /// Written to it.
    pub(crate) written: u64,
}

impl DiskBytes {
    /// Since the process began.
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

/// CPU that this process has used.
pub(crate) fn process_cpu() -> Duration {
    cpu(ClockId::ProcessCPUTime)
}

/// CPU that the calling thread has used.
pub(crate) fn own_thread_cpu() -> Duration {
    cpu(ClockId::ThreadCPUTime)
}

fn cpu(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// CPU of this process's running threads of a name.
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

/// Memory of this process that came on top of what it had when this was first asked. An allocator
/// keeps for a while what a row before has freed, so the figure can be too high by that, never too
/// low: of a store's memory there is nothing in the base.
pub(crate) fn resident_gain_bytes() -> u64 {
    static BASE: OnceLock<u64> = OnceLock::new();
    let bytes = resident_bytes();
    bytes.saturating_sub(*BASE.get_or_init(|| bytes))
}

/// Memory of this process that is resident; 0 where `/proc` does not say.
pub(crate) fn resident_bytes() -> u64 {
    memory_bytes("VmRSS:")
}

/// The most memory of this process that ever was resident; 0 where `/proc` does not say.
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

/// Bytes that the files below a folder take on the disk.
pub(crate) fn disk_bytes(folder: &Path) -> Result<u64> {
    use std::os::unix::fs::MetadataExt as _;
    let mut sum = 0;
    for entry in fs::read_dir(folder).map_err(Error::io("read", folder))? {
        let entry = entry.map_err(Error::io("read", folder))?;
        let metadata = match entry.metadata() {
            Ok(metadata) => metadata,
            // The engine removes files while it works.
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
