//! State that all tasks of a torture run share: the nodes, the phase, the state of the server, the
//! recorder.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Result, ensure};
use parking_lot::Mutex;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use serde_json::json;
use tokio::sync::watch;

use super::caller::{Caller, Endpoint};
use super::pause::PauseGate;
use super::receiver::ReceiverKind;
use crate::api;
use crate::history::Recorder;

/// Most ids kept for later operations.
const RECENT_MAX: usize = 3_000;

/// Default time after which a call is in doubt.
const CALL_TIMEOUT: Duration = Duration::from_secs(15);

/// Phase of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RunPhase {
    /// Load and faults.
    Load,
    /// No new operations, no faults; every receiver confirms.
    Drain,
    /// All tasks end.
    Done,
}

/// A namespace under test.
#[derive(Debug, Clone, Copy)]
pub(super) struct TestNamespace {
    pub(super) name: &'static str,
    /// Receiver of its webhooks; `None`: consumers lease its firings.
    pub(super) receiver: Option<ReceiverKind>,
}

/// All namespaces under test.
pub(super) const NAMESPACES: [TestNamespace; 6] = [
    TestNamespace { name: "pull-a", receiver: None },
    TestNamespace { name: "hook-a", receiver: Some(ReceiverKind::Moody) },
    TestNamespace { name: "pull.b", receiver: None },
    TestNamespace { name: "hook_b", receiver: Some(ReceiverKind::Moody) },
    TestNamespace { name: WELL_BEHAVED, receiver: Some(ReceiverKind::Well) },
    TestNamespace { name: "hook-rude", receiver: Some(ReceiverKind::Rude) },
];

/// Namespace of the well-behaved receiver.
pub(super) const WELL_BEHAVED: &str = "hook-well";

/// Consumers of each leased namespace.
pub(super) const CONSUMERS_PER_NAMESPACE: usize = 2;

/// Number of consumers.
const CONSUMERS: usize = 2 * CONSUMERS_PER_NAMESPACE;

/// The server's time-out for the webhook receiver.
pub(super) const WEBHOOK_TIMEOUT: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub(super) struct World {
    pub(super) recorder: Recorder,
    /// The nodes; each accepts every call.
    pub(super) nodes: Vec<Endpoint>,
    /// Time after which a call is in doubt.
    pub(super) call_timeout: Duration,
    seed: u64,
    marks: AtomicU64,
    recent: Mutex<VecDeque<(usize, String)>>,
    /// Gate at which the moody receiver is stopped.
    pub(super) receiver_gate: PauseGate,
    /// Gates at which consumers are stopped.
    pub(super) consumer_gates: [PauseGate; CONSUMERS],
    phase: watch::Sender<RunPhase>,
    /// `true` while the server accepts calls.
    pub(super) up: watch::Sender<bool>,
    interrupted: Arc<AtomicBool>,
}

impl World {
    /// Creates the state of a run, which the first Ctrl-C interrupts.
    pub(super) fn new(nodes: Vec<Endpoint>, seed: u64) -> Self {
        let interrupted = Arc::new(AtomicBool::new(false));
        let pressed = Arc::clone(&interrupted);
        tokio::spawn(async move {
            pressed.store(tokio::signal::ctrl_c().await.is_ok(), Ordering::Relaxed);
        });
        Self {
            recorder: Recorder::default(),
            call_timeout: CALL_TIMEOUT,
            nodes,
            seed,
            marks: AtomicU64::new(1),
            recent: Mutex::default(),
            receiver_gate: PauseGate::default(),
            consumer_gates: Default::default(),
            phase: watch::Sender::new(RunPhase::Load),
            up: watch::Sender::new(true),
            interrupted,
        }
    }

    /// Returns a caller with its own connections; `task` as for [`Self::rng`].
    pub(super) fn caller(&self, task: u64) -> Caller {
        Caller::new(&self.nodes, self.call_timeout, self.rng(task))
    }

    /// Returns the generator of one task, from the seed and the task's number.
    pub(super) fn rng(&self, task: u64) -> SmallRng {
        SmallRng::seed_from_u64(self.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ task)
    }

    pub(super) fn phase(&self) -> RunPhase {
        *self.phase.borrow()
    }

    pub(super) fn set_phase(&self, phase: RunPhase) {
        self.phase.send_replace(phase);
    }

    pub(super) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Returns `true` if the load is to end before its time.
    pub(super) fn must_end(&self) -> bool {
        self.is_interrupted() || self.recorder.is_full()
    }

    /// Waits for `wait` or until the load ends; returns `true` if it has ended.
    pub(super) async fn load_ends_within(&self, wait: Duration) -> bool {
        let mut phase = self.phase.subscribe();
        let ended = phase.wait_for(|phase| *phase != RunPhase::Load);
        tokio::time::timeout(wait, ended).await.is_ok()
    }

    pub(super) fn next_mark(&self) -> u64 {
        self.marks.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn add_recent_id(&self, namespace: usize, id: String) {
        let mut recent = self.recent.lock();
        if recent.len() >= RECENT_MAX {
            recent.pop_front();
        }
        recent.push_back((namespace, id));
    }

    /// Returns a known id, recent ones more often than old ones; `x` and `y` are from 0 to 1.
    pub(super) fn pick_recent_id(&self, x: f64, y: f64) -> Option<(usize, String)> {
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

    pub(super) fn is_up(&self) -> bool {
        *self.up.borrow()
    }

    /// Waits until the server is up or the run is over.
    pub(super) async fn wait_until_up(&self) {
        let mut up = self.up.subscribe();
        let mut phase = self.phase.subscribe();
        tokio::select! {
            _ = up.wait_for(|up| *up) => {}
            _ = phase.wait_for(|phase| *phase == RunPhase::Done) => {}
        }
    }

    /// Creates the namespaces; `address` returns the address of a receiver.
    pub(super) async fn create_namespaces(
        &self,
        address: impl Fn(ReceiverKind) -> SocketAddr,
    ) -> Result<()> {
        let mut caller = self.caller(997);
        for namespace in &NAMESPACES {
            let destination = match namespace.receiver {
                Some(kind) => json!({ "http": {
                    "url": format!("http://{}/{}", address(kind), namespace.name),
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
            let response = caller.call("PUT", &path, body.to_string().as_bytes()).await?;
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
