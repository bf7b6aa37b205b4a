//! A store, mostly the reference, with failures on demand.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use duly_core::{Millis, NamespaceName, shard::ShardId};
use duly_store::{
    ClaimRequest, Claimed, Deployment, Error, MemberId, Ready, ReadyCursor, SettleOutcome,
    SettleVerdict, Settlement, Store, StoreFuture,
    conformance::{ManualClock, StandIn},
    deployment::{Allotment, Announcement, Ask, Coordinators, Heartbeat, HeartbeatReply},
    namespaces::Put,
};
use parking_lot::Mutex;
use tokio::sync::{Notify, broadcast};

#[derive(Debug)]
pub(super) struct Flaky {
    inner: Arc<dyn Store>,
    settles: Failures,
    claims: Failures,
    released: AtomicUsize,
    slow_claim: Mutex<Option<(ManualClock, Millis)>>,
    held_claim: Mutex<Option<Arc<Notify>>>,
    settle_takes: Mutex<Duration>,
    put_before_claim: Mutex<Option<(NamespaceName, Put)>>,
    doomed_claim: Mutex<Option<Arc<Notify>>>,
    faults: [Mutex<Option<Fault>>; 4],
    polls: AtomicUsize,
    is_cut_off: AtomicBool,
    coordinators: Mutex<BTreeMap<ShardId, Cut>>,
    waits_for: Mutex<Option<Vec<String>>>,
}

/// The fate of heartbeats between this node and a coordinator shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    /// No heartbeat arrives, and there is no reply.
    Both,
    /// Heartbeats arrive, but no reply returns.
    Replies,
    /// The server refuses heartbeats at once.
    Refused,
}

/// The fault of a call.
#[derive(Debug, Clone, Copy)]
enum Fault {
    Hang,
    Panic,
}

/// A call that can hang or panic.
#[derive(Debug, Clone, Copy)]
pub(super) enum Breaks {
    Ready,
    Claim,
    Settle,
    Release,
}

#[derive(Debug, Default)]
struct Failures {
    left: AtomicUsize,
    failed: AtomicUsize,
}

impl Failures {
    fn check(&self) -> Result<(), Error> {
        let less = |left: usize| left.checked_sub(1);
        let (set, get) = (Ordering::Relaxed, Ordering::Relaxed);
        if self.left.fetch_update(set, get, less).is_err() {
            return Ok(());
        }
        self.failed.fetch_add(1, Ordering::Relaxed);
        Err(unavailable())
    }
}

fn unavailable() -> Error {
    Error::Unavailable {
        reason: "asked to by the test".to_owned(),
        retry_after: Millis::from_ms(10),
    }
}

impl Flaky {
    pub(super) fn new(inner: Arc<dyn Store>) -> Self {
        Self {
            inner,
            settles: Failures::default(),
            claims: Failures::default(),
            released: AtomicUsize::new(0),
            slow_claim: Mutex::new(None),
            held_claim: Mutex::new(None),
            settle_takes: Mutex::default(),
            put_before_claim: Mutex::default(),
            doomed_claim: Mutex::default(),
            faults: Default::default(),
            polls: AtomicUsize::default(),
            is_cut_off: AtomicBool::default(),
            coordinators: Mutex::default(),
            waits_for: Mutex::default(),
        }
    }

    pub(super) fn fail_settles(&self, count: usize) {
        self.settles.left.store(count, Ordering::Relaxed);
    }

    pub(super) fn failed_settles(&self) -> usize {
        self.settles.failed.load(Ordering::Relaxed)
    }

    pub(super) fn fail_claims(&self, count: usize) {
        self.claims.left.store(count, Ordering::Relaxed);
    }

    /// Delays the reply to the next claim by this time.
    pub(super) fn delay_claim(&self, clock: ManualClock, by: Millis) {
        *self.slow_claim.lock() = Some((clock, by));
    }

    /// Delays the reply to the next claim that grants something until the signal.
    pub(super) fn hold_claim(&self) -> Arc<Notify> {
        let signal = Arc::new(Notify::new());
        *self.held_claim.lock() = Some(Arc::clone(&signal));
        signal
    }

    /// Delays the next claim until the signal, then fails it.
    pub(super) fn doom_claim(&self) -> Arc<Notify> {
        let signal = Arc::new(Notify::new());
        *self.doomed_claim.lock() = Some(Arc::clone(&signal));
        signal
    }

    /// Puts these settings before the next claim, after it was planned.
    pub(super) fn put_before_claim(&self, name: NamespaceName, put: Put) {
        *self.put_before_claim.lock() = Some((name, put));
    }

    pub(super) async fn settings(&self, name: &NamespaceName) -> Arc<duly_core::Settings> {
        let known = self.inner.get_namespace(name.clone()).await.unwrap();
        known.expect("the namespace is there").settings
    }

    /// Makes the next call of this kind hang.
    pub(super) fn hang(&self, kind: Breaks) {
        *self.faults[kind as usize].lock() = Some(Fault::Hang);
    }

    /// Makes the next call of this kind panic.
    pub(super) fn panic_in(&self, kind: Breaks) {
        *self.faults[kind as usize].lock() = Some(Fault::Panic);
    }

    async fn maybe_break(&self, kind: Breaks) {
        let fault = self.faults[kind as usize].lock().take();
        match fault {
            Some(Fault::Hang) => std::future::pending::<()>().await,
            Some(Fault::Panic) => panic!("planted"),
            None => {}
        }
    }

    /// Makes each settle call take this long; a call that is dropped before changes nothing.
    pub(super) fn slow_settles(&self, takes: Duration) {
        *self.settle_takes.lock() = takes;
    }

    /// Returns the number of firings that were released and not counted.
    pub(super) fn released(&self) -> usize {
        self.released.load(Ordering::Relaxed)
    }

    /// Cuts the node off, so that no call arrives, or ends that.
    pub(super) fn cut_off(&self, is_cut_off: bool) {
        self.is_cut_off.store(is_cut_off, Ordering::Relaxed);
    }

    /// Sets the fate of heartbeats at a coordinator shard; `None` restores them.
    pub(super) fn cut_from(&self, coordinator: ShardId, cut: Option<Cut>) {
        let mut coordinators = self.coordinators.lock();
        match cut {
            Some(cut) => coordinators.insert(coordinator, cut),
            None => coordinators.remove(&coordinator),
        };
    }

    /// Makes coordinator shards report these members of an older version, or none.
    pub(super) fn waits_for(&self, names: Option<&[&str]>) {
        let names = names.map(|names| names.iter().map(ToString::to_string).collect());
        *self.waits_for.lock() = names;
    }

    fn through(&self) -> Result<(), Error> {
        if self.is_cut_off.load(Ordering::Relaxed) { Err(unavailable()) } else { Ok(()) }
    }

    /// Returns the number of `ready` and `claim` calls so far.
    pub(super) fn polls(&self) -> usize {
        self.polls.load(Ordering::Relaxed)
    }

    pub(super) fn failed_claims(&self) -> usize {
        self.claims.failed.load(Ordering::Relaxed)
    }
}

impl Flaky {
    fn shared(&self) -> &dyn Deployment {
        self.inner.deployment().expect("only asked where nodes share the store")
    }
}

impl Deployment for Flaky {
    fn coordinators(&self) -> Coordinators {
        self.shared().coordinators()
    }

    fn heartbeat(
        &self,
        coordinator: ShardId,
        heartbeat: Heartbeat,
    ) -> StoreFuture<'_, HeartbeatReply> {
        Box::pin(async move {
            self.through()?;
            if let Some(names) = self.waits_for.lock().clone() {
                return Ok(HeartbeatReply::Waiting(names));
            }
            let cut = self.coordinators.lock().get(&coordinator).copied();
            match cut {
                None => self.shared().heartbeat(coordinator, heartbeat).await,
                Some(Cut::Refused) => Err(unavailable()),
                Some(Cut::Both) => std::future::pending().await,
                Some(Cut::Replies) => {
                    self.shared().heartbeat(coordinator, heartbeat).await?;
                    std::future::pending().await
                }
            }
        })
    }

    fn holders(&self, shard: ShardId) -> StoreFuture<'_, Vec<MemberId>> {
        self.shared().holders(shard)
    }

    fn allot(
        &self,
        shard: ShardId,
        member_id: MemberId,
        requests: Vec<Ask>,
    ) -> StoreFuture<'_, Vec<Allotment>> {
        match self.through() {
            Ok(()) => self.shared().allot(shard, member_id, requests),
            Err(error) => Box::pin(async { Err(error) }),
        }
    }

    fn announce(&self, shard: ShardId, namespace: NamespaceName) -> StoreFuture<'_, ()> {
        self.shared().announce(shard, namespace)
    }

    fn announcements(&self) -> broadcast::Receiver<Announcement> {
        self.shared().announcements()
    }
}

impl StandIn for Flaky {
    fn behind(&self) -> &dyn Store {
        &*self.inner
    }

    fn deployment(&self) -> Option<&dyn Deployment> {
        self.inner.deployment().is_some().then_some(self)
    }

    fn ready(
        &self,
        shard: ShardId,
        after: Option<ReadyCursor>,
        limit: usize,
    ) -> StoreFuture<'_, Ready> {
        self.polls.fetch_add(1, Ordering::Relaxed);
        Box::pin(async move {
            self.through()?;
            self.maybe_break(Breaks::Ready).await;
            self.inner.ready(shard, after, limit).await
        })
    }

    fn claim(&self, shard: ShardId, request: ClaimRequest) -> StoreFuture<'_, Claimed> {
        self.polls.fetch_add(1, Ordering::Relaxed);
        match self.claims.check() {
            Ok(()) => Box::pin(async move {
                self.through()?;
                self.maybe_break(Breaks::Claim).await;
                let doomed = self.doomed_claim.lock().take();
                if let Some(signal) = doomed {
                    signal.notified().await;
                    return Err(unavailable());
                }
                let put = self.put_before_claim.lock().take();
                if let Some((name, put)) = put {
                    self.inner.put_namespace(name, put).await?;
                }
                let claimed = self.inner.claim(shard, request).await;
                let grants = claimed.as_ref().is_ok_and(|claimed| !claimed.firings.is_empty());
                let held = if grants { self.held_claim.lock().take() } else { None };
                if let Some(signal) = held {
                    signal.notified().await;
                }
                if let Some((clock, by)) = self.slow_claim.lock().take() {
                    clock.advance(by);
                }
                claimed
            }),
            Err(error) => Box::pin(async { Err(error) }),
        }
    }

    fn release_owner(&self, shard: ShardId, member_id: MemberId) -> StoreFuture<'_, u64> {
        Box::pin(async move {
            self.maybe_break(Breaks::Release).await;
            self.inner.release_owner(shard, member_id).await
        })
    }

    fn settle(
        &self,
        shard: ShardId,
        settlements: Vec<Settlement>,
    ) -> StoreFuture<'_, Vec<SettleOutcome>> {
        match self.settles.check() {
            Ok(()) => {
                let releases = settlements.iter().filter(|s| s.verdict == SettleVerdict::Release);
                self.released.fetch_add(releases.count(), Ordering::Relaxed);
                Box::pin(async move {
                    self.through()?;
                    self.maybe_break(Breaks::Settle).await;
                    let takes = *self.settle_takes.lock();
                    if !takes.is_zero() {
                        tokio::time::sleep(takes).await;
                    }
                    self.inner.settle(shard, settlements).await
                })
            }
            Err(error) => Box::pin(async { Err(error) }),
        }
    }
}
