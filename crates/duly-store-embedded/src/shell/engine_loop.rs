//! The engine thread.

use std::{
    collections::VecDeque,
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use duly_core::{Millis, metric_names};
use duly_store::{Error, Health};
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::{
    disk::{self, Disk},
    engine::{Engine, background_work::Pace, terminal::Terminal},
    numbered::SEGMENTS,
    progress::Progress,
};

use super::{
    Inbox, Request, Waiter,
    background::Background,
    fair_queue::FairQueue,
    inbox::{EngineReply, Intake, ReplyAt},
    join,
    spare::SpareWriter,
    syncer::Syncer,
};

/// Commands of one batch that are done in a slice.
const SLICE_COMMANDS: usize = 1_000;
/// Most requests that one step takes, even if they write nothing.
const REQUESTS_PER_STEP: usize = 1_024;
/// Bytes after which a frame is committed.
const COMMIT_BYTES_MAX: usize = 4 << 20;
/// Longest sleep of the engine: without requests, ends of leases and expiries are noticed at most this
/// late.
const SLEEP_MAX: Duration = Duration::from_millis(250);
/// Age at which the health snapshot is renewed when there is nothing else to do.
const HEALTH_IDLE: Duration = Duration::from_millis(10);
/// Age at which the health snapshot is renewed under load.
const HEALTH_BUSY: Duration = Duration::from_millis(100);

/// Bytes that background work may write per second: enough to keep up with ingest at full rate, and less
/// than disks of today's machines can take.
const BACKGROUND_BYTES_PER_SECOND: u64 = 300 << 20;

/// State that the threads share with the callers.
#[derive(Debug, Clone)]
pub(crate) struct EngineShared {
    pub(crate) inbox: Arc<Inbox>,
    /// Count that grows when a timer may have become claimable earlier than was announced.
    pub(crate) wakeups: Arc<watch::Sender<u64>>,
    pub(crate) health: Arc<Mutex<Health>>,
    pub(crate) terminal: Terminal,
    pub(crate) progress: Arc<Progress>,
}

/// Starts the threads with an opened engine.
pub(crate) fn start(
    mut engine: Engine,
    disk: Arc<dyn Disk>,
    segment_bytes: u64,
    shared: EngineShared,
) -> std::io::Result<JoinHandle<()>> {
    let syncer = Arc::new(Syncer::default());
    let sync_thread = SyncThread::start(&syncer, &shared)?;
    engine.set_pace(Pace::BytesPerSecond(BACKGROUND_BYTES_PER_SECOND));
    let background = Background::start(Arc::clone(&shared.inbox), Arc::clone(&shared.progress))?;
    thread::Builder::new().name("duly-engine".into()).spawn(move || {
        let _watch = EngineWatch { shared: shared.clone() };
        let spare = SpareWriter::new(disk, segment_bytes, Arc::clone(&shared.inbox));
        let mut shell = Shell {
            engine,
            shared,
            syncer,
            work: FairQueue::default(),
            lists: VecDeque::new(),
            health_at: Instant::now(),
            health_stale: false,
            spare,
            background,
            stalled: PendingReplies::default(),
            _sync_thread: sync_thread,
        };
        shell.run();
        shell.background.stop();
    })
}

/// Refuses requests after the engine thread has ended. A panic of the thread ends the store as a failed
/// write does.
struct EngineWatch {
    shared: EngineShared,
}

impl Drop for EngineWatch {
    fn drop(&mut self) {
        let EngineShared { inbox, health, terminal, .. } = &self.shared;
        let panicked = || thread::panicking().then(|| PANICKED.to_owned());
        let Some(reason) = terminal.get().or_else(panicked) else {
            inbox.abandon(super::closed());
            return;
        };
        // This happens before the terminal error is set, so that every later request gets an error.
        let retry_after = Millis::from_secs(10);
        inbox.abandon(Error::Unavailable { reason: reason.clone(), retry_after });
        if thread::panicking() {
            health.lock().not_ready.push(terminal.set(reason));
        }
    }
}

const PANICKED: &str = "the store has ended: its engine met an internal error (a panic, see the \
                        log); the server must be restarted, or the store opened again";

/// The syncing thread. It ends when this is dropped, also by a panic of the engine.
struct SyncThread {
    syncer: Arc<Syncer>,
    thread: Option<JoinHandle<()>>,
}

impl SyncThread {
    fn start(syncer: &Arc<Syncer>, shared: &EngineShared) -> std::io::Result<Self> {
        let (syncs, inbox) = (Arc::clone(syncer), Arc::clone(&shared.inbox));
        let progress = Arc::clone(&shared.progress);
        let thread = thread::Builder::new().name("duly-sync".into()).spawn(move || {
            let panic_watch = SyncWatch { syncer: &syncs, inbox: &inbox };
            syncs.run(&inbox, &progress);
            drop(panic_watch);
        })?;
        Ok(Self { syncer: Arc::clone(syncer), thread: Some(thread) })
    }
}

impl Drop for SyncThread {
    fn drop(&mut self) {
        self.syncer.stop();
        join(self.thread.take(), "syncing");
    }
}

/// Ends the waits for syncs that will not come, after a panic of the syncing thread.
struct SyncWatch<'a> {
    syncer: &'a Syncer,
    inbox: &'a Inbox,
}

impl Drop for SyncWatch<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            let what = "the syncing thread panicked";
            let error = disk::Error::other(disk::Operation::Sync, SEGMENTS.dir, what);
            self.syncer.fail(self.inbox, error);
        }
    }
}

struct Shell {
    engine: Engine,
    shared: EngineShared,
    syncer: Arc<Syncer>,
    work: FairQueue,
    lists: VecDeque<Request>,
    health_at: Instant,
    health_stale: bool,
    spare: SpareWriter,
    background: Background,
    /// Replies that wait for a frame that found no space.
    stalled: PendingReplies,
    /// Declared last, so dropped last: the others may still wait for a sync.
    _sync_thread: SyncThread,
}

/// Replies of one step, by the time when they may leave.
#[derive(Default)]
struct PendingReplies {
    written: Vec<Waiter>,
    durable: Vec<Waiter>,
}

impl PendingReplies {
    fn extend(&mut self, later: Self) {
        self.written.extend(later.written);
        self.durable.extend(later.durable);
    }

    fn push(&mut self, (at, waiter): EngineReply) {
        match at {
            ReplyAt::Now => waiter(Ok(())),
            ReplyAt::Written => self.written.push(waiter),
            ReplyAt::Durable => self.durable.push(waiter),
        }
    }
}

impl Shell {
    fn run(&mut self) {
        loop {
            let held = self.work.len() + self.lists.len();
            let progress = Arc::clone(&self.shared.progress);
            Progress::end(&progress.engine);
            let intake = self.shared.inbox.take(self.sleep_max(), held);
            progress.begin(&progress.engine);
            let closing = intake.closed;
            self.health_stale |= !intake.requests.is_empty() || intake.synced.is_some();
            let since = Instant::now();
            self.take_in(intake);
            self.engine.begin_step();
            let mut replies = PendingReplies::default();
            self.work_off(&mut replies);
            self.advance_list();
            self.commit(replies, since);
            if self.engine.take_wake() {
                self.shared.wakeups.send_modify(|count| *count += 1);
            }
            self.spare.advance(&mut self.engine);
            for work in self.engine.take_work() {
                self.background.send(work);
            }
            self.refresh_health();
            if closing
                && (self.is_done() || self.engine.is_stalled())
                && self.shared.inbox.is_empty()
                && (self.engine.stop() || self.background.is_gone())
            {
                // Nothing watches the end of the store.
                Progress::end(&progress.engine);
                self.last_sync();
                return;
            }
        }
    }

    /// Returns `true` if no caller waits for a reply.
    fn is_done(&self) -> bool {
        self.work.is_empty() && self.lists.is_empty() && !self.engine.is_counting()
    }

    fn sleep_max(&self) -> Duration {
        if self.engine.is_busy() || !self.work.is_empty() || !self.lists.is_empty() {
            return Duration::ZERO;
        }
        if self.health_stale { HEALTH_IDLE } else { SLEEP_MAX }
    }

    fn take_in(&mut self, intake: Intake) {
        if let Some((lsn, position)) = intake.synced {
            self.engine.synced(lsn, position);
        }
        if let Some(error) = intake.failed {
            drop(self.engine.sync_failed(&error));
        }
        for request in intake.requests {
            match request {
                list @ Request::List { .. } => self.lists.push_back(list),
                request => self.work.push(request),
            }
        }
    }

    fn work_off(&mut self, replies: &mut PendingReplies) {
        // Unfinished work gets another slice in the next step.
        let (mut unfinished, mut taken) = (Vec::new(), 0);
        while let Some(request) = self.work.pop() {
            // Each request may read the disk, and together they may take long.
            self.shared.progress.begin(&self.shared.progress.engine);
            match request {
                Request::Call(call) => replies.push(call(&mut self.engine)),
                Request::Slices(mut slices) => match slices(&mut self.engine) {
                    Some(reply) => replies.push(reply),
                    None => unfinished.push(Request::Slices(slices)),
                },
                Request::Apply { commands, outcomes, reply } => {
                    unfinished.extend(self.apply_slice(commands, outcomes, reply, replies));
                }
                list @ Request::List { .. } => self.lists.push_back(list),
            }
            taken += 1;
            if taken >= REQUESTS_PER_STEP || self.engine.uncommitted_bytes() >= COMMIT_BYTES_MAX {
                break;
            }
        }
        unfinished.into_iter().for_each(|request| self.work.push(request));
    }

    fn apply_slice(
        &mut self,
        mut commands: std::vec::IntoIter<duly_store::Command>,
        mut outcomes: Vec<duly_store::Outcome>,
        reply: tokio::sync::oneshot::Sender<duly_store::Result<Vec<duly_store::Outcome>>>,
        replies: &mut PendingReplies,
    ) -> Option<Request> {
        if outcomes.is_empty()
            && let Err(error) = self.engine.check_usable()
        {
            drop(reply.send(Err(error)));
            return None;
        }
        let bytes_max = self.engine.uncommitted_bytes() + COMMIT_BYTES_MAX;
        self.engine.apply_some(&mut commands, SLICE_COMMANDS, bytes_max, &mut outcomes);
        if commands.len() > 0 {
            return Some(Request::Apply { commands, outcomes, reply });
        }
        replies.durable.push(Box::new(move |result| {
            drop(reply.send(result.map(|()| outcomes)));
        }));
        None
    }

    /// Gives a slice to the first list that waits.
    fn advance_list(&mut self) {
        if let Some(Request::List { mut listing, reply }) = self.lists.pop_front()
            && !reply.is_closed()
        {
            match listing.slice(&mut self.engine) {
                None => self.lists.push_back(Request::List { listing, reply }),
                Some(page) => drop(reply.send(page)),
            }
        }
    }

    fn commit(&mut self, replies: PendingReplies, since: Instant) {
        let bytes = self.engine.uncommitted_bytes() as u64;
        let was_stalled = self.engine.is_stalled();
        let committed = self.engine.commit();
        let mut all = std::mem::take(&mut self.stalled);
        all.extend(replies);
        match committed {
            Ok(mark) => {
                let replies = all;
                if was_stalled {
                    self.syncer.resume();
                }
                replies.written.into_iter().for_each(|waiter| waiter(Ok(())));
                let (written, durable) = self.engine.lsns();
                self.syncer.already_durable(durable);
                self.syncer.when_durable(written, replies.durable.into_iter());
                if let Some(mark) = mark {
                    metrics::counter!(metric_names::COMMIT_BYTES_TOTAL).increment(bytes);
                    self.syncer.submit(mark, since);
                }
            }
            // The frame is written when there is space; its callers keep waiting.
            Err(_) if self.engine.is_stalled() => self.stalled = all,
            Err(error) => fail(all, &error),
        }
    }

    fn refresh_health(&mut self) {
        let idle = self.work.is_empty() && self.lists.is_empty();
        let age_max = if idle { HEALTH_IDLE } else { HEALTH_BUSY };
        if self.health_stale && self.health_at.elapsed() >= age_max {
            *self.shared.health.lock() = self.engine.health();
            self.health_at = Instant::now();
            self.health_stale = false;
        }
    }

    /// Makes the last written records durable, for which no caller waits.
    fn last_sync(&mut self) {
        if let Err(error) = self.engine.check_usable() {
            let reason = format!("the store was closed before the change was durable: {error}");
            fail(std::mem::take(&mut self.stalled), &Error::InDoubt { reason });
            return;
        }
        let (done, wait) = std::sync::mpsc::channel();
        let (written, _) = self.engine.lsns();
        let waiter: Waiter = Box::new(move |result| drop(done.send(result)));
        self.syncer.when_durable(written, std::iter::once(waiter));
        if let Ok(Err(error)) = wait.recv_timeout(Duration::from_secs(30)) {
            tracing::error!(%error, "final sync at the stop failed");
        }
    }
}

fn fail(replies: PendingReplies, error: &Error) {
    for waiter in replies.written.into_iter().chain(replies.durable) {
        waiter(Err(error.clone()));
    }
}
