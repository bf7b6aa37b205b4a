//! The embedded store: turns the calls of [`Store`] into requests to the engine.

use std::{collections::BTreeSet, path::Path, sync::Arc, thread::JoinHandle, time::Duration};

use duly_core::{Invalid, NamespaceName, TimerId, env::Clock, shard::ShardId};
use duly_store::{
    AuditStore, Backups, ClaimRequest, Claimed, Command, Error, Forecast, ForecastRequest, Health,
    ListRequest, MemberId, Namespaces, Outcome, Page, Ready, ReadyCursor, Result, SettleOutcome,
    Settlement, Stats, Store, StoreFuture, Tail, TimerView, Timers, command,
    namespaces::{Activity, DeleteMode, IdleCursor, IdlePage, Namespace, Put},
};
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};

use crate::{
    access_file::AccessFile,
    audit_file::AuditFile,
    disk::{Disk, RealDisk},
    engine::{
        Engine,
        async_count::CountQuestion,
        settle::{Releasing, Settling},
        terminal::Terminal,
    },
    open::{OpenError, OpenProgress, OpenReport},
    options::Options,
    progress::Progress,
    shell::{self, EngineShared, Inbox, ReplyAt, Request},
};

mod backup;
mod files;
mod inline;
mod requests;

use inline::{run_inline, settle_down, write_durably};
use requests::UnreceivedClaim;

/// An open data directory.
#[derive(Debug)]
pub struct EmbeddedStore {
    mode: StoreMode,
    disk: Arc<dyn Disk>,
    report: OpenReport,
    terminal: Terminal,
    access: Arc<AccessFile>,
    audit: Arc<AuditFile>,
    /// Held by the backup in progress.
    backup: Mutex<()>,
}

#[derive(Debug)]
enum StoreMode {
    Threads { shared: EngineShared, engine: Mutex<Option<JoinHandle<()>>> },
    Inline { engine: Arc<Mutex<Engine>>, wakeups: watch::Sender<u64> },
}

/// Longest wait of [`Store::health`] for the engine; then it returns the last snapshot.
const HEALTH_WAIT_MAX: Duration = Duration::from_millis(20);

impl ReplyAt {
    /// Converts the result for the caller. A call that returns at once changed nothing, so its errors
    /// are never in doubt.
    fn received<'a, T: Send + 'static>(
        self,
        answer: impl Future<Output = Result<T>> + Send + 'a,
    ) -> StoreFuture<'a, T> {
        match self {
            Self::Now => Box::pin(async move { answer.await.map_err(Error::of_read) }),
            Self::Written | Self::Durable => Box::pin(answer),
        }
    }
}

impl EmbeddedStore {
    /// Opens a directory, making it if there is none, and starts the engine's threads.
    ///
    /// # Errors
    /// Returns the first reason found; nothing in the directory was changed.
    pub fn open_dir(
        path: &Path,
        options: Options,
        clock: Arc<dyn Clock>,
    ) -> std::result::Result<Self, OpenError> {
        let disk = Arc::new(RealDisk::open_or_create(path)?);
        Self::open(disk, options, clock, &mut |_| {})
    }

    /// Opens a disk and starts the engine's threads; `progress` gets reports on reading.
    ///
    /// # Errors
    /// Returns the first reason found; nothing on the disk was changed.
    pub fn open(
        disk: Arc<dyn Disk>,
        options: Options,
        clock: Arc<dyn Clock>,
        progress: &mut dyn FnMut(OpenProgress),
    ) -> std::result::Result<Self, OpenError> {
        let segment_bytes = options.segment_bytes;
        let queue_max = options.queue_max;
        let work = Arc::new(Progress::new(Arc::clone(&clock)));
        let (engine, report, access, audit) = open_engine(&disk, options, clock, progress, &work)?;
        let shared = EngineShared {
            inbox: Arc::new(Inbox::new(queue_max)),
            wakeups: Arc::new(watch::Sender::new(0)),
            health: Arc::new(Mutex::new(engine.health())),
            terminal: engine.terminal(),
            progress: work,
        };
        let thread = shell::start(engine, Arc::clone(&disk), segment_bytes, shared.clone())
            .map_err(OpenError::no_thread)?;
        let terminal = shared.terminal.clone();
        let mode = StoreMode::Threads { shared, engine: Mutex::new(Some(thread)) };
        Ok(Self { mode, disk, report, terminal, access, audit, backup: Mutex::new(()) })
    }

    /// Opens a disk without any thread: each call is carried out, written and synced before it returns.
    /// It is for simulation, where the order of all events follows from a seed.
    ///
    /// # Errors
    /// As [`EmbeddedStore::open`].
    pub fn open_inline(
        disk: Arc<dyn Disk>,
        options: Options,
        clock: Arc<dyn Clock>,
    ) -> std::result::Result<Self, OpenError> {
        let work = Arc::new(Progress::new(Arc::clone(&clock)));
        let (engine, report, access, audit) =
            open_engine(&disk, options, clock, &mut |_| {}, &work)?;
        let terminal = engine.terminal();
        let engine = Arc::new(Mutex::new(engine));
        Ok(Self {
            mode: StoreMode::Inline { engine, wakeups: watch::Sender::new(0) },
            disk,
            report,
            terminal,
            access,
            audit,
            backup: Mutex::new(()),
        })
    }

    /// Returns the report of the start.
    pub const fn report(&self) -> OpenReport {
        self.report
    }

    /// Finishes the accepted requests, ends the journal with a closing frame, takes a last checkpoint
    /// and stops the threads. Later calls are refused.
    pub fn close(&self) {
        match &self.mode {
            StoreMode::Threads { shared, engine } => {
                shared.inbox.close();
                shell::join(engine.lock().take(), "engine");
            }
            StoreMode::Inline { engine, .. } => {
                let mut engine = engine.lock();
                while !engine.stop() && settle_down(&mut engine).is_ok() {}
            }
        }
    }

    /// Waits until the store has ended for good, and returns the reason: an error may have left a part
    /// of a write in the journal, or the engine met an internal error. Never completes if the store is
    /// closed before.
    ///
    /// Every call fails from then on. Nothing that was acknowledged is lost: [`close`](Self::close) the
    /// store, drop it and open the directory again. Recovery rewrites what may not have reached the disk
    /// before it trusts it.
    pub fn ended(&self) -> impl Future<Output = String> + Send + 'static {
        self.terminal.wait()
    }

    fn call<T: Send + 'static>(
        &self,
        when: ReplyAt,
        work: impl FnOnce(&mut Engine) -> Result<T> + Send + 'static,
    ) -> StoreFuture<'_, T> {
        match &self.mode {
            StoreMode::Inline { engine, wakeups } => {
                let result = run_inline(&mut engine.lock(), wakeups, work);
                when.received(std::future::ready(result))
            }
            StoreMode::Threads { shared, .. } => {
                let (reply, answer) = oneshot::channel();
                let pushed = shared.inbox.push(Request::Call(Box::new(move |engine| {
                    let result = engine.check_usable().and_then(|()| work(engine));
                    (when, Box::new(move |done| drop(reply.send(after(done, result)))))
                })));
                when.received(received(pushed, answer))
            }
        }
    }
}

/// Stops the threads as [`EmbeddedStore::close`] does. A store without threads ends as it is, as after
/// `kill -9` of its process.
impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        if matches!(self.mode, StoreMode::Threads { .. }) {
            self.close();
        }
    }
}

fn open_engine(
    disk: &Arc<dyn Disk>,
    options: Options,
    clock: Arc<dyn Clock>,
    progress: &mut dyn FnMut(OpenProgress),
    work: &Arc<Progress>,
) -> std::result::Result<(Engine, OpenReport, Arc<AccessFile>, Arc<AuditFile>), OpenError> {
    options.check().map_err(OpenError::Options)?;
    let lock = disk.lock()?;
    let (engine, report) = Engine::open(Arc::clone(disk), options, Arc::clone(&clock), progress)?;
    let work = Arc::clone(work);
    let access = AccessFile::open(Arc::clone(disk), Arc::clone(&clock), lock, Arc::clone(&work))?;
    let audit = AuditFile::open(Arc::clone(disk), clock, work)?;
    if access.records().are_required() {
        audit.reserve();
    }
    Ok((engine, report, Arc::new(access), Arc::new(audit)))
}

/// Returns the result of a call after its records are written or durable. A refused call wrote nothing,
/// so failed writes of other calls do not concern it.
fn after<T>(done: Result<()>, result: Result<T>) -> Result<T> {
    result.and_then(|answer| done.map(|()| answer))
}

fn received<T: Send + 'static>(
    pushed: Result<()>,
    answer: oneshot::Receiver<Result<T>>,
) -> StoreFuture<'static, T> {
    Box::pin(async move {
        pushed?;
        answer.await.unwrap_or_else(|_| Err(shell::ended_before_reply()))
    })
}

impl Timers for EmbeddedStore {
    fn shards(&self) -> u16 {
        1
    }

    fn apply(&self, shard: ShardId, commands: Vec<Command>) -> StoreFuture<'_, Vec<Outcome>> {
        if let Err(error) = own(shard).and_then(|()| command::check_count(commands.len())) {
            return refused(error);
        }
        match &self.mode {
            StoreMode::Inline { .. } => self.call(ReplyAt::Durable, move |engine| {
                let mut outcomes = Vec::with_capacity(commands.len());
                let (mut commands, all) = (commands.into_iter(), usize::MAX);
                engine.apply_some(&mut commands, all, all, &mut outcomes);
                Ok(outcomes)
            }),
            StoreMode::Threads { shared, .. } => {
                let (reply, answer) = oneshot::channel();
                let outcomes = Vec::with_capacity(commands.len());
                let request = Request::Apply { commands: commands.into_iter(), outcomes, reply };
                received(shared.inbox.push(request), answer)
            }
        }
    }

    fn ready(
        &self,
        shard: ShardId,
        after: Option<ReadyCursor>,
        limit: usize,
    ) -> StoreFuture<'_, Ready> {
        self.call(ReplyAt::Now, move |engine| {
            own(shard)?;
            engine.ready(after.as_ref(), limit)
        })
    }

    fn claim(&self, shard: ShardId, request: ClaimRequest) -> StoreFuture<'_, Claimed> {
        if let Err(error) = own(shard) {
            return refused(error);
        }
        match &self.mode {
            StoreMode::Inline { .. } => {
                self.call(ReplyAt::Written, move |engine| engine.claim(&request))
            }
            StoreMode::Threads { shared, .. } => {
                let (reply, answer) = oneshot::channel();
                let inbox = Arc::clone(&shared.inbox);
                let pushed = shared.inbox.push(Request::Call(Box::new(move |engine| {
                    if reply.is_closed() {
                        return (ReplyAt::Now, Box::new(|_| {}));
                    }
                    let result = engine.check_usable().and_then(|()| engine.claim(&request));
                    let waiter = move |done| {
                        let unreceived = |claimed| UnreceivedClaim { claimed, inbox };
                        drop(reply.send(after(done, result).map(unreceived)));
                    };
                    (ReplyAt::Written, Box::new(waiter))
                })));
                let claimed = received(pushed, answer);
                Box::pin(async move { Ok(claimed.await?.deliver()) })
            }
        }
    }

    fn settle(
        &self,
        shard: ShardId,
        settlements: Vec<Settlement>,
    ) -> StoreFuture<'_, Vec<SettleOutcome>> {
        own(shard).and_then(|()| Settling::new(settlements)).map_or_else(refused, |mut settling| {
            self.in_slices(move |engine| engine.settle_slice(&mut settling))
        })
    }

    fn release_owner(&self, shard: ShardId, member: MemberId) -> StoreFuture<'_, u64> {
        let mut releasing = Releasing::new(member);
        own(shard).map_or_else(refused, |()| {
            self.in_slices(move |engine| engine.release_slice(&mut releasing).map(Ok))
        })
    }

    fn get(
        &self,
        shard: ShardId,
        namespace: NamespaceName,
        id: TimerId,
        bytes_max: u64,
    ) -> StoreFuture<'_, Option<TimerView>> {
        self.call(ReplyAt::Now, move |engine| {
            own(shard).and_then(|()| engine.get(&namespace, &id, bytes_max))
        })
    }

    fn list(&self, shard: ShardId, request: ListRequest) -> StoreFuture<'_, Page> {
        own(shard).map_or_else(refused, |()| self.listed(request))
    }

    fn stats(&self, shard: ShardId, namespace: NamespaceName) -> StoreFuture<'_, Option<Stats>> {
        own(shard).map_or_else(refused, |()| self.count(namespace, CountQuestion::Stats))
    }

    fn counts(
        &self,
        shard: ShardId,
        names: Vec<NamespaceName>,
    ) -> StoreFuture<'_, Vec<Option<Stats>>> {
        let count = move |engine: &mut Engine| Ok(engine.counts(&names));
        own(shard).map_or_else(refused, |()| self.call(ReplyAt::Now, count))
    }

    fn forecast(
        &self,
        shard: ShardId,
        request: ForecastRequest,
    ) -> StoreFuture<'_, Option<Forecast>> {
        if let Err(error) = own(shard).and_then(|()| request.check()) {
            return refused(error);
        }
        self.count(request.namespace.clone(), move |reply| CountQuestion::Forecast(request, reply))
    }

    fn wakeups(&self, _shard: ShardId) -> watch::Receiver<u64> {
        match &self.mode {
            StoreMode::Threads { shared, .. } => shared.wakeups.subscribe(),
            StoreMode::Inline { wakeups, .. } => wakeups.subscribe(),
        }
    }
}

impl Namespaces for EmbeddedStore {
    fn put_namespace(&self, name: NamespaceName, put: Put) -> StoreFuture<'_, (Namespace, bool)> {
        self.call(ReplyAt::Durable, move |engine| engine.put_namespace(&name, put))
    }

    fn get_namespace(&self, name: NamespaceName) -> StoreFuture<'_, Option<Namespace>> {
        self.call(ReplyAt::Now, move |engine| Ok(engine.get_namespace(&name)))
    }

    fn list_namespaces(
        &self,
        after: Option<NamespaceName>,
        limit: usize,
    ) -> StoreFuture<'_, Vec<Namespace>> {
        self.call(ReplyAt::Now, move |engine| Ok(engine.list_namespaces(after.as_ref(), limit)))
    }

    fn set_activity(&self, name: NamespaceName, activity: Activity) -> StoreFuture<'_, Namespace> {
        self.call(ReplyAt::Durable, move |engine| engine.set_activity(&name, activity))
    }

    fn delete_namespace(&self, name: NamespaceName, mode: DeleteMode) -> StoreFuture<'_, ()> {
        self.call(ReplyAt::Durable, move |engine| engine.delete_namespace(&name, mode))
    }

    fn remove_idle(
        &self,
        from: Option<IdleCursor>,
        waited: Arc<BTreeSet<NamespaceName>>,
    ) -> StoreFuture<'_, IdlePage> {
        self.call(ReplyAt::Durable, move |engine| engine.remove_idle(from, &waited))
    }
}

impl Store for EmbeddedStore {
    fn audit(&self) -> Option<&dyn AuditStore> {
        Some(self)
    }

    fn backups(&self) -> Option<&dyn Backups> {
        Some(self)
    }

    fn location(&self) -> String {
        self.disk.describe()
    }

    fn tail(&self) -> Tail {
        self.report.tail
    }

    fn ended(&self) -> BoxFuture<'static, String> {
        Box::pin(Self::ended(self))
    }

    fn close(&self) {
        Self::close(self);
    }

    fn terminal_error(&self) -> Option<String> {
        self.terminal.get()
    }

    fn health(&self) -> Health {
        match &self.mode {
            StoreMode::Threads { shared, .. } => {
                let (reply, answer) = std::sync::mpsc::channel();
                shared.inbox.push_always(move |engine| drop(reply.send(engine.health())));
                let fresh = answer.recv_timeout(HEALTH_WAIT_MAX);
                let mut health = fresh.unwrap_or_else(|_| shared.health.lock().clone());
                health.stalls = shared.progress.stalls();
                health.keys_stall = shared.progress.keys_stall();
                health.warnings.extend(shared.progress.warnings());
                health
            }
            StoreMode::Inline { engine, .. } => {
                let mut engine = engine.lock();
                engine.begin_step();
                engine.health()
            }
        }
    }
}

/// Refuses any shard but the only one.
fn own(shard: ShardId) -> Result<()> {
    if shard == ShardId(0) {
        return Ok(());
    }
    Err(Invalid::new("shard", shard.0, "0, the only shard of an embedded store").into())
}

fn refused<'a, T: Send + 'static>(error: Error) -> StoreFuture<'a, T> {
    Box::pin(std::future::ready(Err(error)))
}
