//! Transport to an embedded store in this process: the engine without network, HTTP and node.

use std::{path::Path, sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use duly_checker::history::SettleAnswer;
use duly_core::{
    Millis, NamespaceName, Payload, Schedule, TimerId, Timestamp,
    destination::LaneKey,
    payload::Form,
    schedule::{IfExists, Patch, When},
    shard::ShardId,
};
use duly_store::{
    ClaimRequest, Command, Lane, LaneClaim, ListRequest, Namespaces, Operation as StoreOperation,
    Owner, SettleOutcome, SettleVerdict, Settlement, Timers, Token,
    command::Answer,
    namespaces::{DeleteMode, Put, Secrets},
    query::ListState,
};
use duly_store_embedded::{EmbeddedStore, Options, SystemClock};
use futures::future::{BoxFuture, FutureExt as _};
use tokio::time::{Instant, timeout_at};

use super::{Firing, Operation, Outcome, PAGE, Settings, Transport, Verdict};

/// The only shard of the embedded store.
const SHARD: ShardId = ShardId(0);
/// Most payload bytes of one claim.
const CLAIM_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// Longest sleep between two claims, as [`duly_store::Timers::wakeups`] requires.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// An open store.
#[derive(Debug)]
pub(crate) struct InProcess {
    store: EmbeddedStore,
    payload: Bytes,
}

impl InProcess {
    pub(super) fn open(folder: &Path, payload: String) -> Result<Self> {
        // The data is removed at the end. So `min_free_bytes` is enough of a reserve.
        let options = Options { min_free_percent: 0, ..Options::default() };
        let store = EmbeddedStore::open_dir(folder, options, Arc::new(SystemClock))
            .with_context(|| format!("cannot open a store in {}", folder.display()))?;
        Ok(Self { store, payload: payload.into() })
    }

    fn schedule(&self, number: u64, due_ms: u64, if_exists: IfExists) -> Result<StoreOperation> {
        let mut schedule = Schedule::new(id(number)?, When::At(time(due_ms)));
        let payload = Payload { form: Form::Text, bytes: self.payload.clone() };
        schedule.spec.payload = Some(payload);
        Ok(StoreOperation::Schedule { schedule: Box::new(schedule), if_exists })
    }

    fn operation(&self, operation: &Operation) -> Result<StoreOperation> {
        Ok(match *operation {
            Operation::Schedule { number, due_ms } | Operation::Repeat { number, due_ms } => {
                self.schedule(number, due_ms, IfExists::Fail)?
            }
            Operation::Replace { number, due_ms } => {
                self.schedule(number, due_ms, IfExists::Replace)?
            }
            Operation::Reschedule { number, due_ms } => {
                let patch = Patch { when: Some(When::At(time(due_ms))), ..Patch::default() };
                let patch = Box::new(patch);
                StoreOperation::Reschedule { id: id(number)?, patch, if_revision: None }
            }
            Operation::Cancel { number } => {
                StoreOperation::Cancel { id: id(number)?, if_revision: None }
            }
        })
    }

    async fn leased(
        &self,
        namespace: NamespaceName,
        max: u32,
        until: Instant,
    ) -> Result<Vec<Firing>> {
        let lane = Lane { namespace, key: LaneKey::Pull };
        let max = max as usize;
        let request = ClaimRequest {
            lanes: vec![LaneClaim { lane, first_max: max, retry_max: max }],
            total_max: max,
            bytes_max: CLAIM_BYTES_MAX,
            owner: Owner::Consumer { lease: None },
        };
        let mut wakeups = self.store.wakeups(SHARD);
        loop {
            wakeups.mark_unchanged();
            let claimed = self.store.claim(SHARD, request.clone()).await?;
            let now = Instant::now();
            if !claimed.firings.is_empty() || now >= until {
                return Ok(claimed.firings.into_iter().map(firing).collect());
            }
            let next = now + claimed.next_due_in.map_or(SLEEP_MAX, |due_in| due_in.min(SLEEP_MAX));
            // A time-out means that the next claim is due.
            timeout_at(next.min(until), wakeups.changed()).await.ok();
        }
    }
}

impl Transport for InProcess {
    fn make<'a>(
        &'a self,
        _: usize,
        namespace: &'a str,
        settings: &'a Settings,
    ) -> BoxFuture<'a, Result<()>> {
        async move {
            let mut own = duly_core::Settings::default();
            if let Some(lease) = settings.lease {
                own.lease = Millis::from_ms(u64::try_from(lease.as_millis())?);
            }
            let put = Put::Replace { settings: Box::new(own), secrets: Secrets::Keep };
            self.store.put_namespace(name(namespace)?, put).await?;
            Ok(())
        }
        .boxed()
    }

    fn end<'a>(&'a self, _: usize, namespace: &'a str) -> BoxFuture<'a, Result<()>> {
        async move { Ok(self.store.delete_namespace(name(namespace)?, DeleteMode::Force).await?) }
            .boxed()
    }

    fn pending<'a>(&'a self, _: usize, namespace: &'a str) -> BoxFuture<'a, Result<u64>> {
        async move {
            let stats = self.store.stats(SHARD, name(namespace)?).await?;
            Ok(stats.context("the namespace is gone")?.pending())
        }
        .boxed()
    }

    fn list<'a>(&'a self, _: usize, namespace: &'a str) -> BoxFuture<'a, Result<usize>> {
        async move {
            let mut request = ListRequest::new(name(namespace)?, ListState::Pending);
            let mut timers = 0;
            // The store may return short pages; a caller of a server gets one page of all of them.
            while timers < PAGE as usize {
                request.limit = PAGE as usize - timers;
                let page = self.store.list(SHARD, request.clone()).await?;
                timers += page.timers.len();
                request.after = page.next;
                if request.after.is_none() {
                    break;
                }
            }
            Ok(timers)
        }
        .boxed()
    }

    fn batch<'a>(
        &'a self,
        _: usize,
        namespace: &'a str,
        operations: &'a [Operation],
    ) -> BoxFuture<'a, Result<Vec<Outcome>>> {
        async move {
            let namespace = name(namespace)?;
            let command = |operation: &Operation| {
                let (namespace, operation) = (namespace.clone(), self.operation(operation)?);
                anyhow::Ok(Command { namespace, operation, answer: Answer::Brief })
            };
            let commands = operations.iter().map(command).collect::<Result<Vec<_>>>()?;
            Ok(self.store.apply(SHARD, commands).await?.into_iter().map(outcome).collect())
        }
        .boxed()
    }

    fn lease<'a>(
        &'a self,
        _: usize,
        namespace: &'a str,
        max: u32,
        wait_ms: u32,
    ) -> BoxFuture<'a, Result<Vec<Firing>>> {
        let until = Instant::now() + Duration::from_millis(wait_ms.into());
        async move { self.leased(name(namespace)?, max, until).await }.boxed()
    }

    fn settle<'a>(
        &'a self,
        _: usize,
        namespace: &'a str,
        tokens: &'a [&'a str],
        verdict: Verdict,
    ) -> BoxFuture<'a, Result<Vec<SettleAnswer>>> {
        async move {
            let namespace = name(namespace)?;
            let settlement = |token: &&str| {
                let token = Token::parse(token).context("a token of another store")?;
                let verdict = match verdict {
                    Verdict::Ack => SettleVerdict::Ack,
                    Verdict::DeadLetter => SettleVerdict::Dead { reason: "bench".to_owned() },
                };
                anyhow::Ok(Settlement { token, namespace: Some(namespace.clone()), verdict })
            };
            let settlements = tokens.iter().map(settlement).collect::<Result<Vec<_>>>()?;
            Ok(self.store.settle(SHARD, settlements).await?.into_iter().map(settled).collect())
        }
        .boxed()
    }
}

fn name(namespace: &str) -> Result<NamespaceName> {
    Ok(NamespaceName::new(namespace)?)
}

fn id(number: u64) -> Result<TimerId> {
    Ok(TimerId::new(&number.to_string())?)
}

fn time(unix_ms: u64) -> Timestamp {
    Timestamp::saturating_from_unix_ms(unix_ms)
}

fn firing(firing: duly_store::Firing) -> Firing {
    Firing { number: firing.id.as_str().parse().ok(), token: firing.token.to_string() }
}

fn outcome(outcome: duly_store::Outcome) -> Outcome {
    use duly_store::Outcome as Stored;
    match outcome {
        Stored::Created(_) | Stored::Changed(_) => Outcome::Written,
        Stored::Existing(_) => Outcome::Existing,
        Stored::Replaced(_) => Outcome::Replaced,
        Stored::Cancelled { .. } => Outcome::Cancelled,
        other => Outcome::Refused(format!("{other:?}")),
    }
}

const fn settled(outcome: SettleOutcome) -> SettleAnswer {
    match outcome {
        SettleOutcome::Ok | SettleOutcome::Cancelled => SettleAnswer::Ok,
        SettleOutcome::Dead => SettleAnswer::Dead,
        SettleOutcome::AlreadySettled => SettleAnswer::AlreadySettled,
        SettleOutcome::LeaseLost => SettleAnswer::LeaseLost,
        SettleOutcome::InvalidToken | SettleOutcome::InDoubt => SettleAnswer::InvalidToken,
    }
}
