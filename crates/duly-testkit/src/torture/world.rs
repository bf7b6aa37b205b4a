//! What every task of a torture run knows: the server's address, who is up, what is recorded.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use parking_lot::Mutex;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use serde_json::json;
use tokio::sync::watch;

use super::caller::{Caller, Endpoint};
use super::gate::Gate;
use super::receiver::Nature;
use crate::api;
use crate::history::Recorder;

/// Ids that later operations pick from.
const RECENT_MAX: usize = 3_000;

/// How long any call may take before it is in doubt, unless the run says otherwise.
const PATIENCE: Duration = Duration::from_secs(15);

/// What the run is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Everything at once.
    Load,
    /// No new operations, no more kills and stops; every receiver confirms.
    Drain,
    /// Everybody goes home.
    Done,
}

/// A namespace under test.
#[derive(Debug, Clone, Copy)]
pub(super) struct Namespace {
    pub(super) name: &'static str,
    /// Where its webhooks go; `None`: it is leased by consumers.
    pub(super) receiver: Option<Nature>,
}

/// All namespaces under test.
pub(super) const NAMESPACES: [Namespace; 6] = [
    Namespace { name: "pull-a", receiver: None },
    Namespace { name: "hook-a", receiver: Some(Nature::Moody) },
    Namespace { name: "pull.b", receiver: None },
    Namespace { name: "hook_b", receiver: Some(Nature::Moody) },
    Namespace { name: WELL, receiver: Some(Nature::Well) },
    Namespace { name: "hook-rude", receiver: Some(Nature::Rude) },
];

/// The one whose receiver does nothing wrong.
pub(super) const WELL: &str = "hook-well";

/// Consumers of each namespace that is leased.
pub(super) const CONSUMERS_EACH: usize = 2;

/// Consumers in all.
const CONSUMERS: usize = 2 * CONSUMERS_EACH;

/// Longest that the server waits for the webhook receiver.
pub(super) const WEBHOOK_TIMEOUT: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub(super) struct World {
    pub(super) recorder: Recorder,
    /// The nodes; each answers every call.
    pub(super) nodes: Vec<Endpoint>,
    /// How long any call may take before it is in doubt.
    pub(super) patience: Duration,
    seed: u64,
    marks: AtomicU64,
    recent: Mutex<VecDeque<(usize, String)>>,
    /// Where the moody receiver stands still.
    pub(super) receiver_gate: Gate,
    /// Where each consumer does.
    pub(super) worker_gates: [Gate; CONSUMERS],
    phase: watch::Receiver<Phase>,
    up: watch::Sender<bool>,
}

impl World {
    pub(super) fn new(nodes: Vec<Endpoint>, seed: u64, phase: watch::Receiver<Phase>) -> Self {
        Self {
            recorder: Recorder::default(),
            patience: PATIENCE,
            nodes,
            seed,
            marks: AtomicU64::new(1),
            recent: Mutex::default(),
            receiver_gate: Gate::default(),
            worker_gates: Default::default(),
            phase,
            up: watch::Sender::new(true),
        }
    }

    /// Somebody who calls the nodes, with connections of its own; `task` as for [`Self::rng`].
    pub(super) fn caller(&self, task: u64) -> Caller {
        Caller::new(&self.nodes, self.patience, self.rng(task))
    }

    /// A generator for one task, from the seed and the task's own number.
    pub(super) fn rng(&self, task: u64) -> SmallRng {
        SmallRng::seed_from_u64(self.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ task)
    }

    pub(super) fn phase(&self) -> Phase {
        *self.phase.borrow()
    }

    /// Waits so long, or until the load ends; says whether it has.
    pub(super) async fn load_ends_within(&self, wait: Duration) -> bool {
        let mut phase = self.phase.clone();
        let ended = phase.wait_for(|phase| *phase != Phase::Load);
        tokio::time::timeout(wait, ended).await.is_ok()
    }

    pub(super) fn mark(&self) -> u64 {
        self.marks.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn remember(&self, namespace: usize, id: String) {
        let mut recent = self.recent.lock();
        if recent.len() >= RECENT_MAX {
            recent.pop_front();
        }
        recent.push_back((namespace, id));
    }

    /// A known id, new ones more often than old ones; `x` and `y` from 0 to 1.
    pub(super) fn recall(&self, x: f64, y: f64) -> Option<(usize, String)> {
        let recent = self.recent.lock();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            clippy::cast_precision_loss,
            reason = "a share of at most RECENT_MAX"
        )]
        let back = (recent.len() as f64 * x * y) as usize;
        recent.iter().rev().nth(back).cloned()
    }

    pub(super) fn set_up(&self, up: Up) {
        self.up.send_replace(up == Up::Yes);
    }

    pub(super) fn is_up(&self) -> bool {
        *self.up.borrow()
    }

    /// Waits until the server is up again or the run is over.
    pub(super) async fn wait_up(&self) {
        let mut up = self.up.subscribe();
        let mut phase = self.phase.clone();
        tokio::select! {
            _ = up.wait_for(|up| *up) => {}
            _ = phase.wait_for(|phase| *phase == Phase::Done) => {}
        }
    }

    /// Makes the namespaces; `address` says where a receiver listens.
    pub(super) async fn put_namespaces(
        &self,
        address: impl Fn(Nature) -> SocketAddr,
    ) -> Result<()> {
        let mut caller = self.caller(997);
        for namespace in &NAMESPACES {
            let destination = match namespace.receiver {
                Some(nature) => json!({ "http": {
                    "url": format!("http://{}/{}", address(nature), namespace.name),
                    "timeout": format!("{}s", WEBHOOK_TIMEOUT.as_secs()),
                }}),
                None => json!({ "pull": {} }),
            };
            let body = json!({
                "destination": destination,
                "retry": { "max_attempts": 6, "min_backoff": "100ms", "max_backoff": "2s",
                           "multiplier": 2, "jitter": 0.2 },
                "lease": "2s",
                "retention": "7d",
            });
            let path = api::path(namespace.name, "");
            let body = serde_json::to_vec(&body)?;
            let response = caller.call("PUT", &path, &body).await?;
            ensure!(
                response.is_success(),
                "PUT {path}: {} {}",
                response.status,
                String::from_utf8_lossy(&response.body)
            );
        }
        Ok(())
    }
}

/// Whether the server takes calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Up {
    Yes,
    No,
}
