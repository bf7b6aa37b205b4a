//! Runs whose history is judged: every call, every firing and every kill is kept, and what they prove
//! is said by [`duly_checker::checker`].
//!
//! A call that fails is in doubt, and the run goes on: an error says nothing about what was done.

mod consume;
mod figures;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use anyhow::Result;
use duly_checker::history::{Answer, Crash, End, Operation, Recorder as History};
use tokio::{task::JoinSet, time::Instant};

use crate::{
    clock::now_us,
    offer::Sent,
    recorder::Recorder,
    target::Target,
    transport::{Ask, Witness},
};

pub(crate) use consume::CONSUMERS;
pub(crate) use figures::Judged;

/// Between two tries while a call fails.
const PAUSE: Duration = Duration::from_millis(5);

/// Keeps what happens in a namespace.
pub(crate) struct Judge {
    witness: Arc<dyn Witness>,
    target: Arc<Target>,
    namespace: String,
    history: History,
    beside: u64,
    /// Received minus due, of first attempts.
    pub(crate) lateness: Arc<Recorder>,
    is_down: AtomicBool,
    is_over: AtomicBool,
    has_waited: AtomicBool,
}

impl Judge {
    /// Of this namespace. Timers with numbers from `beside` on do not count for the lateness.
    pub(crate) fn new(
        witness: Arc<dyn Witness>,
        target: Arc<Target>,
        namespace: String,
        beside: u64,
    ) -> Self {
        Self {
            beside,
            witness,
            target,
            namespace,
            history: History::default(),
            lateness: Arc::default(),
            is_down: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            has_waited: AtomicBool::new(false),
        }
    }

    /// Where it is.
    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Sends operations together and keeps what was answered.
    pub(crate) async fn ask(&self, line: usize, asks: &[Ask]) -> Sent {
        let key = |ask: &Ask| self.history.key(&self.namespace, &ask.number.to_string());
        let keys: Vec<_> = asks.iter().map(key).collect();
        let (began, sent_us) = (Instant::now(), now_us());
        let answers = self.witness.ask(line, &self.namespace, asks).await;
        let (ended, ended_us) = (Instant::now(), now_us());
        let answered = if answers.is_ok() { asks.len() as u64 } else { 0 };
        let answers = answers.unwrap_or_else(|error| {
            self.remark(&error);
            vec![Answer::InDoubt; asks.len()]
        });
        for ((ask, key), answer) in asks.iter().zip(keys).zip(answers) {
            let (key, action) = (Some(key), ask.action);
            self.history.operation(Operation { key, sent_us, ended_us, action, answer });
        }
        Sent { began, ended, answered }
    }

    /// The server is going to be killed: from now on calls may fail.
    pub(crate) fn goes_down(&self) {
        self.is_down.store(true, Relaxed);
    }

    /// It is back.
    pub(crate) fn is_back(&self, crash: Crash) {
        self.history.crash(crash);
        self.is_down.store(false, Relaxed);
    }

    /// Everything that was due had the time to come: what is still there is stuck.
    pub(crate) fn has_waited(&self) {
        self.has_waited.store(true, Relaxed);
    }

    /// Consumers have nothing more to wait for.
    pub(crate) fn is_over(&self) {
        self.is_over.store(true, Relaxed);
    }

    /// Reads every timer that was ever named, over so many lines.
    pub(crate) async fn read_back(self: &Arc<Self>, lines: usize) -> Result<()> {
        let keys = Arc::new(parking_lot::Mutex::new(self.history.keys()));
        let mut readers = JoinSet::new();
        for line in 0..lines {
            let (judge, keys) = (Arc::clone(self), Arc::clone(&keys));
            readers.spawn(async move {
                loop {
                    let Some(key) = keys.lock().pop() else { return anyhow::Ok(()) };
                    let last = judge.witness.read(line, &key.namespace, &key.id).await?;
                    judge.history.end(End {
                        key: judge.history.key(&key.namespace, &key.id),
                        read_us: now_us(),
                        state: last.state,
                        due_ms: last.due_ms,
                        mark: last.mark,
                    });
                }
            });
        }
        while let Some(reader) = readers.join_next().await {
            reader??;
        }
        Ok(())
    }

    /// A call failed, which it may while the server is down.
    fn remark(&self, error: &anyhow::Error) {
        if !self.is_down.load(Relaxed) {
            self.target.remark(format!("a call had no answer: {error:#}"));
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
