//! Distant hosts: every packet between them and all others is delayed, and may be lost.
//!
//! ```text
//!   hosts ── ports ── bridge `distant` ── tap ══ held here ══ tap ── bridge of the link ── all others
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

use super::network::{self, Host, HostLink};

/// The bridge of the distant hosts.
pub(super) const DISTANT_BRIDGE: &str = "distant";

/// The two tap devices: one on that bridge, one on the bridge of all other hosts.
const TAPS: [&str; 2] = ["distant-here", "distant-there"];

/// Longest frame: the links allow no longer segment.
const FRAME_MAX: usize = 2_048;

/// Delay and loss of a route, in each direction.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RouteQuality {
    /// Delay of a frame, in milliseconds.
    pub(super) delay_ms: RangeInclusive<u64>,
    /// Share of lost frames, in percent.
    pub(super) loss_percent: u32,
}

impl fmt::Display for RouteQuality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.loss_percent > 0 {
            write!(f, "{} % of the packets lost", self.loss_percent)
        } else {
            write!(f, "{} to {} ms each way", self.delay_ms.start(), self.delay_ms.end())
        }
    }
}

/// One direction of a route: it computes the time at which each frame leaves.
#[derive(Debug)]
struct Direction {
    route: RouteQuality,
    rng: SmallRng,
    last: Option<Instant>,
}

impl Direction {
    const fn new(route: RouteQuality, rng: SmallRng) -> Self {
        Self { route, rng, last: None }
    }

    /// Returns the time at which a frame that enters now leaves, after those before it; `None` if
    /// it is lost.
    fn departure(&mut self, now: Instant) -> Option<Instant> {
        if self.rng.random_range(0..100) < self.route.loss_percent {
            return None;
        }
        let takes = Duration::from_millis(self.rng.random_range(self.route.delay_ms.clone()));
        let departure = self.last.map_or(now + takes, |last| last.max(now + takes));
        self.last = Some(departure);
        Some(departure)
    }
}

/// Distant hosts, until [`bring_back`](DistantHosts::bring_back).
#[derive(Debug)]
pub(super) struct DistantHosts {
    hosts: Vec<Host>,
    link: HostLink,
    forwarders: JoinSet<io::Result<()>>,
}

/// Returns the reason why this machine cannot make hosts distant, if there is one.
pub(super) fn missing_device() -> Option<String> {
    let probe = DeviceBuilder::new().name("distant-probe").layer(Layer::L2).build_sync();
    probe.err().map(|error| format!("cannot create a tap device ({error}): /dev/net/tun is needed"))
}

impl DistantHosts {
    /// Sends every frame of these hosts on this link over this route from now on.
    pub(super) fn move_away(
        hosts: Vec<Host>,
        link: HostLink,
        route: &RouteQuality,
        rng: &mut SmallRng,
    ) -> Result<Self> {
        let mut ends = Vec::new();
        for (name, bridge) in TAPS.into_iter().zip([DISTANT_BRIDGE, link.name()]) {
            let tap = DeviceBuilder::new().name(name).layer(Layer::L2).build_async();
            ends.push(Arc::new(tap.with_context(|| format!("cannot make the device {name}"))?));
            network::join_bridge(name, bridge)?;
        }
        let mut forwarders = JoinSet::new();
        for (from, to) in [(0, 1), (1, 0)] {
            let direction = Direction::new(route.clone(), SmallRng::from_rng(rng));
            forwarders.spawn(forward_frames(
                Arc::clone(&ends[from]),
                Arc::clone(&ends[to]),
                direction,
            ));
        }
        network::move_to_bridge(&hosts, link, DISTANT_BRIDGE)?;
        Ok(Self { hosts, link, forwarders })
    }

    /// Moves the hosts back. Frames in flight are lost.
    pub(super) fn bring_back(mut self) -> Result<()> {
        network::rejoin(&self.hosts, self.link)?;
        match self.forwarders.try_join_next() {
            None => Ok(()),
            Some(Ok(Err(error))) => bail!("forwarding of frames ended: {error}"),
            Some(ended) => bail!("forwarding of frames ended: {ended:?}"),
        }
    }
}

/// Carries frames in one direction, until it is aborted.
async fn forward_frames(
    from: Arc<AsyncDevice>,
    to: Arc<AsyncDevice>,
    mut direction: Direction,
) -> io::Result<()> {
    let (enter, mut under_way) = mpsc::unbounded_channel();
    let takes = async {
        let mut frame = [0; FRAME_MAX];
        loop {
            let length = from.recv(&mut frame).await?;
            if let Some(departure) = direction.departure(Instant::now()) {
                let sent = enter.send((departure, frame[..length].to_vec()));
                sent.map_err(io::Error::other)?;
            }
        }
    };
    let gives = async {
        while let Some((departure, frame)) = under_way.recv().await {
            sleep_until(departure).await;
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
        let route = RouteQuality { delay_ms: 100..=140, loss_percent: 5 };
        let mut direction = Direction::new(route, SmallRng::seed_from_u64(1));
        let start = Instant::now();
        let (mut last, mut lost) = (start, 0);
        for frame in 0..10_000 {
            let now = start + Duration::from_millis(frame);
            let Some(departure) = direction.departure(now) else {
                lost += 1;
                continue;
            };
            let took = departure - now;
            assert!((100..=140).contains(&took.as_millis()), "{took:?}");
            assert!(departure >= last);
            last = departure;
        }
        assert!((400..600).contains(&lost), "{lost}");
    }

    #[test]
    fn routes_display_delay_or_loss() {
        let slow = RouteQuality { delay_ms: 80..=120, loss_percent: 0 };
        assert_eq!(slow.to_string(), "80 to 120 ms each way");
        let lossy = RouteQuality { delay_ms: 0..=0, loss_percent: 3 };
        assert_eq!(lossy.to_string(), "3 % of the packets lost");
    }
}
