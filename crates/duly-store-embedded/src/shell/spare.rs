//! The thread that writes the next journal segment ahead, and the messages to it.

use std::{
    sync::{
        Arc,
        mpsc::{self, Sender},
    },
    thread::{self, JoinHandle},
};

use crate::{
    disk::Disk,
    engine::Engine,
    journal::{self, DirSyncLock, PACED_BYTES, SparePace},
};

use super::Inbox;

/// Writes one spare at a time. The engine thread makes it and calls it after each step.
pub(super) struct SpareWriter {
    disk: Arc<dyn Disk>,
    segment_bytes: u64,
    inbox: Arc<Inbox>,
    writing: Option<SpareThread>,
}

struct SpareThread {
    thread: JoinHandle<()>,
    filled: Sender<u64>,
    /// The latest number of bytes that was sent.
    sent_bytes: u64,
}

impl SpareWriter {
    pub(super) const fn new(disk: Arc<dyn Disk>, segment_bytes: u64, inbox: Arc<Inbox>) -> Self {
        Self { disk, segment_bytes, inbox, writing: None }
    }

    /// Begins a spare if the engine wants one, or tells the thread how far the active segment is filled.
    pub(super) fn advance(&mut self, engine: &mut Engine) {
        if let Some(writing) = &mut self.writing
            && !writing.thread.is_finished()
        {
            // A roll may have overtaken it: the next spare waits until this one is complete.
            let filled_bytes = engine.active_segment_bytes();
            if filled_bytes.abs_diff(writing.sent_bytes) >= PACED_BYTES {
                writing.send_filled(filled_bytes);
            }
            return;
        }
        if engine.take_wants_spare() {
            self.writing = self.begin(engine.naming(), engine.active_segment_bytes());
        }
    }

    /// Starts the thread. Without a thread there is no spare, and a roll reserves a segment.
    fn begin(&self, naming: DirSyncLock, filled_bytes: u64) -> Option<SpareThread> {
        let (filled, receiver) = mpsc::channel();
        let (disk, segment_bytes) = (Arc::clone(&self.disk), self.segment_bytes);
        let inbox = Arc::clone(&self.inbox);
        let thread = thread::Builder::new().name("duly-spare".into()).spawn(move || {
            let mut pace = SparePace::new(segment_bytes, receiver);
            let made = journal::write_spare(disk.as_ref(), &naming, segment_bytes, &mut pace);
            inbox.push_always(move |engine| engine.spare_made(made));
        });
        let mut writing = SpareThread { thread: thread.ok()?, filled, sent_bytes: 0 };
        writing.send_filled(filled_bytes);
        Some(writing)
    }
}

/// Stops a spare that will not be needed, and waits for the thread; also after a panic of the engine, like
/// [`super::background::Background`].
impl Drop for SpareWriter {
    fn drop(&mut self) {
        if let Some(SpareThread { thread, filled, .. }) = self.writing.take() {
            drop(filled);
            drop(thread.join());
        }
    }
}

impl SpareThread {
    fn send_filled(&mut self, filled_bytes: u64) {
        self.sent_bytes = filled_bytes;
        // If sending fails, the thread has just ended.
        self.filled.send(filled_bytes).ok();
    }
}
