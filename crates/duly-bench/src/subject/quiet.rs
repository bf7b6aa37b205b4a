//! Consumers of a quiet namespace. They have their own thread and connections, so they do not wait
//! for other work of the load generator.

use std::{sync::Arc, thread};

use anyhow::{Context as _, Result};
use parking_lot::Mutex;
use tokio::{sync::oneshot, task::JoinSet, time::sleep};

use crate::{
    clock::now_us,
    ledger::Ledger,
    target::Target,
    transport::{Client, Transport, Verdict},
};

/// Number of consumers: one waits while others acknowledge.
const CONSUMERS: usize = 4;
/// Most firings per call.
const MAX: u32 = 100;
/// Longest wait of a lease call.
const WAIT_MS: u32 = 1_000;
/// Pause before the next attempt after a call failed.
const PAUSE: std::time::Duration = std::time::Duration::from_millis(20);

/// Receive time and lateness (both µs) of each firing.
pub(crate) type Lates = Arc<Mutex<Vec<(u64, u64)>>>;

/// Handle of the consumers; its drop ends them.
pub(super) struct Quiet {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

/// State shared by the consumers.
#[derive(Clone)]
struct Shared {
    namespace: String,
    target: Arc<Target>,
    ledger: Arc<Ledger>,
    lates: Lates,
}

impl Quiet {
    /// Starts to lease the firings of this namespace, and records their lateness.
    pub(super) fn start(
        client: &Client,
        namespace: String,
        target: &Arc<Target>,
        ledger: &Arc<Ledger>,
        lates: &Lates,
    ) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, stopped) = oneshot::channel();
        let client = client.clone();
        let (target, ledger) = (Arc::clone(target), Arc::clone(ledger));
        let shared = Shared { namespace, target, ledger, lates: Arc::clone(lates) };
        let thread = thread::Builder::new().name("quiet".to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    // The owner of the handle dropped it.
                    _ = stopped => {}
                    result = consume(&client, &shared) => {
                        if let Err(error) = result {
                            shared.target.remark(format!("a quiet consumer stopped: {error:#}"));
                        }
                    }
                }
            });
        });
        let thread = thread.context("no thread for the quiet consumers")?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic has printed its own message; the counts show the missed firings.
            thread.join().ok();
        }
    }
}

async fn consume(client: &Client, shared: &Shared) -> Result<()> {
    let transport = client.separate(CONSUMERS)?.transport();
    let mut consumers = JoinSet::new();
    for line in 0..CONSUMERS {
        let (transport, shared) = (Arc::clone(&transport), shared.clone());
        consumers.spawn(async move {
            loop {
                if let Err(error) = one(&*transport, line, &shared).await {
                    shared.target.remark(format!("a call had no answer: {error:#}"));
                    sleep(PAUSE).await;
                }
            }
        });
    }
    // No consumer ends by itself: one that does has panicked.
    consumers.join_next().await.transpose()?;
    Ok(())
}

async fn one(transport: &dyn Transport, line: usize, shared: &Shared) -> Result<()> {
    let Shared { namespace, ledger, lates, .. } = shared;
    let firings = transport.lease(line, namespace, MAX, WAIT_MS).await?;
    let received_us = now_us();
    if firings.is_empty() {
        return Ok(());
    }
    for firing in &firings {
        if let Some(late_us) = ledger.fired(firing.number, received_us) {
            lates.lock().push((received_us, late_us));
        }
    }
    let tokens: Vec<&str> = firings.iter().map(|firing| firing.token.as_str()).collect();
    let answers = transport.settle(line, namespace, &tokens, Verdict::Ack).await?;
    for (firing, answer) in firings.iter().zip(answers) {
        match firing.number.filter(|_| answer == duly_checker::history::SettleAnswer::Ok) {
            Some(number) => drop(ledger.settled(number)),
            None => shared.target.remark(format!("a settlement was not taken: {answer:?}")),
        }
    }
    Ok(())
}
