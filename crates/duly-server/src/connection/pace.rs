//! The pace of new connections of an address whose connections flooded.
//!
//! A connection that opens too much is ended ([`super::streams`], [`super::frames`]), and its caller may make the next
//! one at once. Each costs the server a handshake and its first streams, and the caller a few packets. So for some time
//! after such an end, the address may begin few connections of HTTP/2. Those past the pace end with their preface,
//! before any stream. Connections of HTTP/1.1, such as probes, have one call at a time and no pace.

use parking_lot::Mutex;
use tokio::time::{Duration, Instant};

/// Time after the end of a connection that flooded.
const PACED_TIME: Duration = Duration::from_secs(10);
/// Time between two connections of HTTP/2 in that time.
pub(crate) const PACE: Duration = Duration::from_millis(50);

/// Connections that it may begin at once.
const AT_ONCE: u32 = 20;

/// The pace of one address.
#[derive(Debug, Default)]
pub(super) struct Pace(Mutex<Option<Paced>>);

#[derive(Debug)]
struct Paced {
    until: Instant,
    /// Time at which no connection is ahead of the pace.
    next: Instant,
}

impl Pace {
    /// Notes that a connection of the address flooded.
    pub(super) fn note_flood(&self) {
        let mut paced = self.0.lock();
        let now = Instant::now();
        let next = paced.as_ref().map_or(now, |paced| paced.next);
        *paced = Some(Paced { until: now + PACED_TIME, next });
    }

    /// Returns `true` while the address has a pace.
    pub(super) fn is_active(&self) -> bool {
        self.0.lock().as_ref().is_some_and(|paced| Instant::now() < paced.until)
    }

    /// Returns `true` if the address may begin a connection of HTTP/2 now.
    pub(super) fn admits(&self) -> bool {
        let mut paced = self.0.lock();
        let now = Instant::now();
        let Some(paced) = paced.as_mut().filter(|paced| now < paced.until) else { return true };
        let next = paced.next.max(now) + PACE;
        let admits = next <= now + PACE * AT_ONCE;
        if admits {
            paced.next = next;
        }
        admits
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn p10_an_address_that_floods_begins_few_connections() {
        let pace = Pace::default();
        assert!((0..1_000).all(|_| pace.admits()), "no flood yet");
        pace.note_flood();
        let mut admitted = 0;
        for _ in 0..1_000 {
            admitted += u32::from(pace.admits());
            advance(Duration::from_millis(1)).await;
        }
        assert_eq!(admitted, 20 + 19, "at once and in the next second");
        advance(PACED_TIME).await;
        assert!(!pace.is_active() && (0..1_000).all(|_| pace.admits()), "it is over");
    }
}
