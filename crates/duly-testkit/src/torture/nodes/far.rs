//! Distant hosts: every packet between them and all others is delayed, and may be lost.
//!
//! ```text
//!   hosts ── ports ── bridge `far` ── tap ══ held here ══ tap ── bridge of the side ── all others
//! ```
//!
//! * This does in user space what netem does in the kernel, because not every kernel has netem. The
//!   ports of the hosts are moved to a separate bridge, and each frame between this bridge and
//!   their former one passes through the tool.
//! * Addresses, connections and servers stay unchanged.
//! * Frames never overtake each other. Frames between the distant hosts are not delayed.
//! * Only one group of hosts is distant at a time.

use std::fmt;
use std::io;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tun_rs::{AsyncDevice, DeviceBuilder, Layer};

use super::network::{self, Host, Side};

/// The bridge of the distant hosts.
pub(super) const FAR: &str = "far";

/// The two tap devices: one on that bridge, one on the bridge of all other hosts.
const TAPS: [&str; 2] = ["far-here", "far-there"];

/// Longest frame: the links allow no longer segment.
const FRAME_MAX: usize = 2_048;

/// Delay and loss of a route, in each direction.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Way {
    /// Delay of a frame, in milliseconds.
    pub(super) takes_ms: RangeInclusive<u64>,
    /// Share of lost frames, in percent.
    pub(super) lost_percent: u32,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.lost_percent > 0 {
            write!(f, "{} % of the packets lost", self.lost_percent)
        } else {
            write!(f, "{} to {} ms each way", self.takes_ms.start(), self.takes_ms.end())
        }
    }
}

/// One direction of a route: it computes the time at which each frame leaves.
#[derive(Debug)]
struct Direction {
    way: Way,
    rng: SmallRng,
    last: Option<Instant>,
}

impl Direction {
    const fn new(way: Way, rng: SmallRng) -> Self {
        Self { way, rng, last: None }
    }

    /// Returns the time at which a frame that enters now leaves, after those before it; `None` if
    /// it is lost.
    fn leaves(&mut self, now: Instant) -> Option<Instant> {
        if self.rng.random_range(0..100) < self.way.lost_percent {
            return None;
        }
        let takes = Duration::from_millis(self.rng.random_range(self.way.takes_ms.clone()));
        let leaves = self.last.map_or(now + takes, |last| last.max(now + takes));
        self.last = Some(leaves);
        Some(leaves)
    }
}

/// Distant hosts, until [`back`](Far::back).
#[derive(Debug)]
pub(super) struct Far {
    hosts: Vec<Host>,
    side: Side,
    carriers: JoinSet<io::Result<()>>,
}

/// Returns the reason why this machine cannot make hosts distant, if there is one.
pub(super) fn missing() -> Option<String> {
    let probe = DeviceBuilder::new().name("far-probe").layer(Layer::L2).build_sync();
    probe.err().map(|error| format!("no tap device can be made ({error}): it takes /dev/net/tun"))
}

impl Far {
    /// Sends every frame of these hosts on this side over this route from now on.
    pub(super) fn put(hosts: &[&Host], side: Side, way: &Way, rng: &mut SmallRng) -> Result<Self> {
        let mut ends = Vec::new();
        for (name, bridge) in TAPS.into_iter().zip([FAR, side.word()]) {
            let tap = DeviceBuilder::new().name(name).layer(Layer::L2).build_async();
            ends.push(Arc::new(tap.with_context(|| format!("cannot make the device {name}"))?));
            network::join_bridge(name, bridge)?;
        }
        let mut carriers = JoinSet::new();
        for (from, to) in [(0, 1), (1, 0)] {
            let direction = Direction::new(way.clone(), SmallRng::from_rng(rng));
            carriers.spawn(carry(Arc::clone(&ends[from]), Arc::clone(&ends[to]), direction));
        }
        network::put_far(hosts, side)?;
        Ok(Self { hosts: hosts.iter().copied().cloned().collect(), side, carriers })
    }

    /// Moves the hosts back. Frames in flight are lost.
    pub(super) fn back(mut self) -> Result<()> {
        network::join(&self.hosts.iter().collect::<Vec<_>>(), self.side)?;
        match self.carriers.try_join_next() {
            None => Ok(()),
            Some(Ok(Err(error))) => bail!("frames were carried no further: {error}"),
            Some(ended) => bail!("frames were carried no further: {ended:?}"),
        }
    }
}

/// Carries frames in one direction, until it is aborted.
async fn carry(
    from: Arc<AsyncDevice>,
    to: Arc<AsyncDevice>,
    mut direction: Direction,
) -> io::Result<()> {
    let (enter, mut under_way) = mpsc::unbounded_channel();
    let takes = async {
        let mut frame = [0; FRAME_MAX];
        loop {
            let length = from.recv(&mut frame).await?;
            if let Some(leaves) = direction.leaves(Instant::now()) {
                let sent = enter.send((leaves, frame[..length].to_vec()));
                sent.map_err(io::Error::other)?;
            }
        }
    };
    let gives = async {
        while let Some((leaves, frame)) = under_way.recv().await {
            sleep_until(leaves).await;
            to.send(&frame).await?;
        }
        Ok(())
    };
    tokio::select! {
        ended = takes => ended,
        ended = gives => ended,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_delayed_in_order_and_some_are_lost() {
        let way = Way { takes_ms: 100..=140, lost_percent: 5 };
        let mut direction = Direction::new(way, SmallRng::seed_from_u64(1));
        let start = Instant::now();
        let (mut last, mut lost) = (start, 0);
        for frame in 0..10_000 {
            let now = start + Duration::from_millis(frame);
            let Some(leaves) = direction.leaves(now) else {
                lost += 1;
                continue;
            };
            let took = leaves - now;
            assert!((100..=140).contains(&took.as_millis()), "{took:?}");
            assert!(leaves >= last);
            last = leaves;
        }
        assert!((400..600).contains(&lost), "{lost}");
    }

    #[test]
    fn routes_display_delay_or_loss() {
        let slow = Way { takes_ms: 80..=120, lost_percent: 0 };
        assert_eq!(slow.to_string(), "80 to 120 ms each way");
        let lossy = Way { takes_ms: 0..=0, lost_percent: 3 };
        assert_eq!(lossy.to_string(), "3 % of the packets lost");
    }
}
