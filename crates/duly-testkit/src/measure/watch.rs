//! Observation of a run: the received and acknowledged timers, and the server's memory.
//!
//! [`Watch`] samples on its own thread; [`no_progress`] ends a run that has stalled.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};

use super::arrivals::Arrivals;
use super::progress::Progress;
use super::usage::{self, MIB};
use crate::clock::{now_us, seconds_since};

/// Time between two samples.
const INTERVAL: Duration = Duration::from_millis(100);

/// Most polls without progress: those of a minute. Polls are counted, not time, so a machine or a
/// process that slept for a while does not end the run.
const STANDSTILL_LOOKS: u32 = 600;

/// One sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    /// Seconds since the due time; negative before it.
    pub(super) seconds: f64,
    /// Timers received so far.
    pub(super) out: usize,
    /// Timers acknowledged so far.
    pub(super) acknowledged: usize,
    /// Resident memory of the server, in bytes.
    pub(super) resident_bytes: u64,
}

/// A thread that samples until it is stopped.
pub(super) struct Watch {
    stop: mpsc::Sender<()>,
    thread: thread::JoinHandle<Result<Vec<Point>>>,
}

impl Watch {
    /// Starts to sample, for timers due at `due_ms`.
    pub(super) fn start(pid: u32, arrivals: Arc<Arrivals>, due_ms: u64) -> Result<Self> {
        let (stop, stopped) = mpsc::channel();
        let thread = thread::Builder::new().name("watch".to_owned()).spawn(move || {
            let mut points = Vec::new();
            let progress = Progress::new("out", arrivals.expected());
            loop {
                points.push(Point {
                    seconds: seconds_since(due_ms, now_us()),
                    out: arrivals.out(),
                    acknowledged: arrivals.acknowledged(),
                    resident_bytes: usage::resident_bytes(pid)?,
                });
                progress.at(arrivals.out());
                if stopped.recv_timeout(INTERVAL) != Err(RecvTimeoutError::Timeout) {
                    return Ok(points);
                }
            }
        });
        Ok(Self { stop, thread: thread.context("no thread for watching")? })
    }

    /// Stops the thread and returns the samples.
    pub(super) fn stop(self) -> Result<Vec<Point>> {
        drop(self.stop);
        self.thread.join().map_err(|_| anyhow!("the watching thread panicked"))?
    }
}

/// Writes the samples as CSV.
pub(super) fn write_csv(path: &Path, points: &[Point]) -> Result<()> {
    std::fs::write(path, csv(points)).with_context(|| format!("cannot write {}", path.display()))
}

#[expect(clippy::cast_precision_loss, reason = "for a person to read")]
fn csv(points: &[Point]) -> String {
    let mut text = "seconds,out,acknowledged,resident_mib\n".to_owned();
    for Point { seconds, out, acknowledged, resident_bytes } in points {
        let resident_mib = *resident_bytes as f64 / MIB;
        writeln!(text, "{seconds:.2},{out},{acknowledged},{resident_mib:.1}")
            .expect("a string takes all");
    }
    text
}

/// Returns an error when no timer was received or acknowledged for a minute. Call it only shortly
/// before the first due time.
pub(super) async fn no_progress(arrivals: &Arrivals) -> anyhow::Error {
    let mut last = (0, 0);
    let mut looks = 0;
    while looks < STANDSTILL_LOOKS {
        tokio::time::sleep(INTERVAL).await;
        let now = (arrivals.out(), arrivals.acknowledged());
        looks = if now == last { looks + 1 } else { 0 };
        last = now;
    }
    let (out, acknowledged) = last;
    anyhow!(
        "nothing happened for a minute: of {} timers {out} are out, {acknowledged} acknowledged",
        arrivals.expected()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_become_lines() {
        let points = [
            Point { seconds: -0.1, out: 0, acknowledged: 0, resident_bytes: 1_048_576 },
            Point { seconds: 0.25, out: 5, acknowledged: 3, resident_bytes: 1_572_864 },
        ];
        let text = csv(&points);
        assert_eq!(text, "seconds,out,acknowledged,resident_mib\n-0.10,0,0,1.0\n0.25,5,3,1.5\n");
    }
}
