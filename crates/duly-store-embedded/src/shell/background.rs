//! The thread that does what would keep the engine from its callers: it reads, writes and removes
//! whole files, one piece of work after the other, and hands each result back through the inbox.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Sender},
    },
    thread::{self, JoinHandle},
};

use crate::engine::work::Work;

use super::{Answer, Inbox};

/// A handle of the thread.
pub(super) struct Background {
    work: Option<Sender<Work>>,
    /// Set when work that was not begun is not wanted any more.
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    pub(super) fn start(inbox: Arc<Inbox>) -> std::io::Result<Self> {
        let (sender, receiver) = mpsc::channel::<Work>();
        let is_over = Arc::<AtomicBool>::default();
        let skips = Arc::clone(&is_over);
        let thread = thread::Builder::new().name("duly-background".into()).spawn(move || {
            for work in receiver {
                if skips.load(Ordering::Relaxed) {
                    continue;
                }
                let sequel = work();
                inbox.push_always(Box::new(move |engine| {
                    sequel(engine);
                    Answer::Now(Box::new(|_| {}))
                }));
            }
        })?;
        Ok(Self { work: Some(sender), is_over, thread: Some(thread) })
    }

    /// Queues a piece of work. One that finds the thread gone is dropped: a panic in it was logged,
    /// and what hangs on it is not done until the next opening.
    pub(super) fn send(&self, work: Work) {
        if let Some(sender) = &self.work
            && sender.send(work).is_err()
        {
            tracing::error!("the background thread is gone; no checkpoint is taken any more");
        }
    }

    /// Whether the thread has ended, by a panic.
    pub(super) fn is_gone(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Lets the thread finish what it is at, and ends it.
    pub(super) fn stop(&mut self) {
        drop(self.work.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the background thread panicked");
        }
    }
}

/// After a panic of the engine too: what opens the directory next must be alone with its files.
impl Drop for Background {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.stop();
    }
}
