//! The background thread, for work that would block the engine. It reads, writes and removes whole
//! files, one piece of work after the other, and returns each result through the inbox.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, Sender},
    },
    thread::{self, JoinHandle},
};

use crate::{engine::background_work::BackgroundWork, progress::Progress};

use super::{Inbox, join};

/// A handle of the thread.
pub(super) struct Background {
    work: Option<Sender<BackgroundWork>>,
    /// `true`: work that was not begun is to be skipped.
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    pub(super) fn start(inbox: Arc<Inbox>, progress: Arc<Progress>) -> std::io::Result<Self> {
        let (sender, receiver) = mpsc::channel::<BackgroundWork>();
        let is_over = Arc::<AtomicBool>::default();
        let skips = Arc::clone(&is_over);
        let thread = thread::Builder::new().name("duly-background".into()).spawn(move || {
            for work in receiver {
                if skips.load(Ordering::Relaxed) {
                    continue;
                }
                let guard = progress.working(&progress.background);
                let completion = work();
                drop(guard);
                inbox.push_always(completion);
            }
        })?;
        Ok(Self { work: Some(sender), is_over, thread: Some(thread) })
    }

    /// Queues a piece of work. If the thread is gone, the work is dropped: the panic was logged, and
    /// work that depends on it is not done until the next start.
    pub(super) fn send(&self, work: BackgroundWork) {
        if let Some(sender) = &self.work
            && sender.send(work).is_err()
        {
            tracing::error!(
                "background thread is gone; no checkpoint is taken until the next start"
            );
        }
    }

    /// Returns `true` if the thread has ended, by a panic.
    pub(super) fn is_gone(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits until the thread has finished its present work, and ends it.
    pub(super) fn stop(&mut self) {
        drop(self.work.take());
        join(self.thread.take(), "background");
    }
}

/// Also stops after a panic of the engine: the next start must be alone with the files.
impl Drop for Background {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.stop();
    }
}
