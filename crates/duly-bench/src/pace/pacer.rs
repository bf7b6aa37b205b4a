//! Pacer: wakes connections at the times of their sends.
//!
//! It is a thread that sleeps until the next send. The runtime's own timer is less exact: its
//! resolution is a millisecond.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use tokio::{sync::Notify, time::Instant};

use super::Pace;

/// Shortest sleep. Sends that are closer together are woken together, because a thread with shorter
/// sleeps takes a whole core.
const REST: Duration = Duration::from_micros(200);
/// Longest sleep. After it the thread checks whether the pacer was dropped.
const LOOK: Duration = Duration::from_millis(50);

/// Handle of the pacer thread; its drop ends the thread.
#[derive(Debug)]
pub(crate) struct Pacer {
    lines: Arc<[Notify]>,
    is_over: Arc<AtomicBool>,
}

impl Pacer {
    /// Starts the thread for all sends of a pace that has a rate, over `lines` connections.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(crate) fn start(pace: Pace, lines: usize) -> io::Result<Self> {
        let lines: Arc<[Notify]> = (0..lines.max(1)).map(|_| Notify::new()).collect();
        let is_over = Arc::new(AtomicBool::new(false));
        let (of_thread, over) = (Arc::clone(&lines), Arc::clone(&is_over));
        let beat = move || {
            for number in 0..pace.sends {
                if !wait(pace.intended(number), &over) {
                    return;
                }
                of_thread[line_of(number, of_thread.len())].notify_one();
            }
        };
        thread::Builder::new().name("pacer".to_owned()).spawn(beat)?;
        Ok(Self { lines, is_over })
    }

    /// Waits until a send of this connection may be due. It may return too early; it never misses a
    /// send.
    pub(super) async fn beat(&self, number: u64) {
        self.lines[line_of(number, self.lines.len())].notified().await;
    }
}

impl Drop for Pacer {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// Sleeps until `until`; returns `false` if the pacer was dropped before.
fn wait(until: Instant, is_over: &AtomicBool) -> bool {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || is_over.load(Ordering::Relaxed) {
            return left.is_zero();
        }
        thread::sleep(left.clamp(REST, LOOK));
    }
}

fn line_of(number: u64, lines: usize) -> usize {
    usize::try_from(number % lines as u64).expect("it is less than a number of lines")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_pacer_wakes_each_line_once_per_send() {
        let began = Instant::now() + Duration::from_millis(5);
        let interval = Some(Duration::from_millis(2));
        let pace = Pace { began, interval, sends: 12, until: began + Duration::from_secs(60) };
        let pacer = Pacer::start(pace, 3).unwrap();
        for number in 0..12 {
            // A late thread wakes a line once for several sends.
            while Instant::now() < pace.intended(number) {
                let beat = pacer.beat(number);
                tokio::time::timeout(Duration::from_secs(30), beat).await.expect("a wake");
            }
        }
    }

    #[test]
    fn dropping_the_pacer_ends_its_thread() {
        let is_over = AtomicBool::new(true);
        assert!(!wait(Instant::now() + Duration::from_secs(3_600), &is_over));
    }
}
