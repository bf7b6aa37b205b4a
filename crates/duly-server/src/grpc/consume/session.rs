//! One consumer's stream, from its first request to its end.

use std::{future::Future, pin::Pin, time::Duration};

use duly_api::{
    lease::LEASE_COUNT_MAX,
    v1::{self, consume_response::Kind},
};
use duly_core::{
    Invalid, Millis, NamespaceName,
    error_code::Retry,
    namespace::{LEASE_MAX, LEASE_MIN},
};
use duly_node::StreamLeases;
use duly_store::{Error, SettleOutcome, SettleVerdict, Token};
use futures::future::OptionFuture;
use prost::Message;
use tokio::{
    sync::mpsc::{OwnedPermit, Sender},
    time::{Instant, Sleep, interval, sleep_until},
};
use tonic::Status;

use super::{QueuedResponse, Requests};
use crate::{
    grpc::{Problem, namespace, required},
    messages,
    service::{
        Admitted,
        blocking::run_blocking,
        pull::{Claims, SETTLEMENT_BYTES, StreamConsumer, settle_result},
    },
};

/// Most firings that a consumer may hold, and most unused credits.
const HELD_MAX: usize = LEASE_COUNT_MAX as usize;
/// Wait before the next lease after one that ended early without firings: the namespace is paused.
const PAUSED_WAIT: Duration = Duration::from_secs(1);
/// Wait before the next lease after one whose response did not fit into the request memory.
const FULL_WAIT: Duration = Duration::from_secs(1);
/// Wait before the next lease after one that failed; it doubles with each failure in a row.
const BACKOFF_MIN: Duration = Duration::from_millis(20);
/// Longest such wait, unless the store asks for more.
const BACKOFF_MAX: Duration = Duration::from_secs(2);
/// Time for which verdicts are accepted while the server stops.
const DRAIN_MAX: Duration = Duration::from_secs(5);

/// Interval at which the key of an idle consumer is checked. It is checked with each message too, both ways.
const KEY_CHECK_EVERY: Duration = Duration::from_millis(500);

/// A running lease, with the slot for its response.
type LeaseFuture = Pin<Box<dyn Future<Output = Result<LeaseResult, Error>> + Send>>;

/// The result of a lease.
struct LeaseResult {
    slot: OwnedPermit<QueuedResponse>,
    claims: Claims,
    began: Instant,
}

/// A consumer.
pub(super) struct Session {
    admitted: Admitted,
    consumer: StreamConsumer,
    namespace: NamespaceName,
    lease: Option<Millis>,
    responses: Sender<QueuedResponse>,
    credits: usize,
    /// `true`: a line of the audit log says that it leases firings.
    has_leased: bool,
    held: StreamLeases,
    /// Earliest time of the next lease.
    not_before: Instant,
    /// The wait after the next failed lease.
    backoff: Duration,
    /// Latest end of the stream while the server stops.
    stops_at: Option<Instant>,
}

impl Session {
    /// Serves a stream until either side ends it.
    pub(super) async fn run(
        admitted: Admitted,
        consumer: StreamConsumer,
        mut requests: Requests,
        responses: Sender<QueuedResponse>,
    ) -> Result<(), Status> {
        // The bounds of incoming messages limit this wait.
        let Some(mut first) = requests.next().await? else { return Ok(()) };
        admitted.check_still_valid()?;
        let open = required("open", first.open.take())?;
        let opened = Self::open(admitted.clone(), consumer, open, responses);
        admitted.note_step("grpc", &admitted.take_notes(), None, false);
        let mut session = opened?;
        session.take(first).await?;
        let mut leasing: OptionFuture<LeaseFuture> = None.into();
        let mut is_leasing = false;
        let (mut check, has_key) = (interval(KEY_CHECK_EVERY), admitted.caller().key().is_some());
        loop {
            if !is_leasing && session.can_lease() {
                leasing = Some(session.lease()).into();
                is_leasing = true;
            }
            let (ends_at, lease_ends_at) = (session.stops_at, session.held.next_end());
            tokio::select! {
                biased;
                () = admitted.stopping(), if session.stops_at.is_none() => {
                    // Its claims, if it has any, are released.
                    (leasing, is_leasing) = (None.into(), false);
                    session.stop();
                }
                Some(()) = wait_until(ends_at) => return Ok(()),
                _ = check.tick(), if has_key => {
                    admitted.check_still_valid().map_err(Status::from)?;
                }
                Some(()) = wait_until(lease_ends_at) => {
                    session.held.forget_ended(Instant::now());
                }
                request = requests.next() => match request? {
                    Some(request) => {
                        admitted.check_still_valid()?;
                        session.take(request).await?;
                    }
                    None => return Ok(()),
                },
                Some(leased) = &mut leasing, if is_leasing => {
                    (leasing, is_leasing) = (None.into(), false);
                    match leased {
                        Ok(result) => session.send_firings(result),
                        Err(error) => session.back_off(error)?,
                    }
                }
            }
            if session.stops_at.is_some() && session.held.is_empty() {
                return Ok(());
            }
        }
    }

    fn open(
        admitted: Admitted,
        consumer: StreamConsumer,
        open: v1::ConsumeOpen,
        responses: Sender<QueuedResponse>,
    ) -> Result<Self, Problem> {
        let lease = open.lease;
        let lease = lease.map(|it| it.check_within("open.lease", LEASE_MIN, LEASE_MAX));
        Ok(Self {
            namespace: namespace(&admitted, &open.namespace)?,
            lease: lease.transpose()?,
            responses,
            credits: 0,
            has_leased: false,
            held: StreamLeases::default(),
            not_before: Instant::now(),
            backoff: BACKOFF_MIN,
            stops_at: None,
            consumer,
            admitted,
        })
    }

    /// Applies the credits and verdicts of a request.
    async fn take(&mut self, request: v1::ConsumeRequest) -> Result<(), Status> {
        if request.open.is_some() {
            let allowed = "left out after the first request: a stream has one namespace";
            return Err(Problem::from(Invalid::unseen("open", allowed)).into());
        }
        let credits = self.credits.saturating_add(request.credits as usize);
        if credits > HELD_MAX {
            let allowed = format!("at most {HELD_MAX}, together with those that are not used yet");
            let invalid = Invalid::new("credits", request.credits, allowed);
            return Err(Problem::from(invalid).into());
        }
        self.credits = credits;
        if !request.settlements.is_empty() {
            self.settle(request.settlements).await?;
        }
        Ok(())
    }

    async fn settle(&mut self, settlements: Vec<v1::Settlement>) -> Result<(), Problem> {
        let count = settlements.len();
        let (call, reservation) = self.admitted.begin_settle_step(&self.namespace, count)?;
        let check = move || Ok(call.check(settlements.into_iter().map(Ok)));
        let checked = run_blocking(count * SETTLEMENT_BYTES, check).await?;
        let tokens: Vec<_> = checked
            .sent()
            .map(|sent| sent.map(|(token, verdict)| (token.clone(), extension_of(verdict))))
            .collect();
        let audited = self.admitted.step("grpc", &self.namespace);
        let settled = self.admitted.settle_many(checked).await;
        audited.end(settled.is_err());
        let results = match settled {
            Err(problem) if problem.can_pass() => vec![Err(problem); count],
            settled => settled?,
        };
        for (token, result) in tokens.iter().zip(&results) {
            if let (Some((token, extension)), Ok(outcome)) = (token, result) {
                self.apply_outcome(token, *extension, *outcome);
            }
        }
        let results = results.into_iter().map(settle_result).collect();
        let settled = Kind::Settled(v1::SettleResponse { results, leased: None });
        // Waits for a free slot; if the consumer has disconnected, nothing happens.
        self.responses.send(queued(&self.admitted, settled)).await.ok();
        drop(reservation);
        Ok(())
    }

    fn apply_outcome(&mut self, token: &Token, extension: Option<Millis>, outcome: SettleOutcome) {
        match (extension, outcome) {
            (_, SettleOutcome::InDoubt | SettleOutcome::InvalidToken) => {}
            (Some(lease), SettleOutcome::Ok | SettleOutcome::AlreadySettled) => {
                self.held.extend(token, lease);
            }
            _ => self.held.remove(token),
        }
    }

    /// Returns the number of firings that the consumer accepts now.
    fn capacity(&self) -> usize {
        self.credits.min(HELD_MAX.saturating_sub(self.held.len()))
    }

    fn can_lease(&self) -> bool {
        self.stops_at.is_none() && self.capacity() > 0
    }

    /// Waits for a slot, then for firings. Their memory is reserved as they are claimed.
    fn lease(&self) -> LeaseFuture {
        let (consumer, responses, not_before) =
            (self.consumer.clone(), self.responses.clone(), self.not_before);
        let (namespace, capacity, lease) = (self.namespace.clone(), self.capacity(), self.lease);
        Box::pin(async move {
            sleep_until(not_before).await;
            // Without a slot the consumer has disconnected, and the session ends.
            let Ok(slot) = responses.reserve_owned().await else { std::future::pending().await };
            let began = Instant::now();
            let claims = consumer.claim(namespace, capacity, lease).await?;
            Ok(LeaseResult { slot, claims, began })
        })
    }

    fn send_firings(&mut self, LeaseResult { slot, claims, began }: LeaseResult) {
        let Claims { mut leased, memory } = claims;
        self.backoff = BACKOFF_MIN;
        if leased.firings.is_empty() {
            // After a lease that has waited its whole time, the next one begins at once.
            self.not_before = began + PAUSED_WAIT;
            if leased.paused {
                self.not_before = Instant::now() + PAUSED_WAIT;
            }
            return;
        }
        if !std::mem::replace(&mut self.has_leased, true) {
            // A line tells that the stream takes firings; its settlements have lines of their own.
            self.admitted.note(|notes| notes.has_changed = true);
            self.admitted.step("grpc", &self.namespace).end(false);
        }
        let firings = leased.firings.iter().map(messages::firing).collect();
        let kind = Some(Kind::Firings(v1::Firings { firings }));
        let response = v1::ConsumeResponse { kind };
        let Ok(reservation) = memory.for_response(&self.admitted.budget(), response.encoded_len())
        else {
            // The claims are released for later, and do not count as attempts.
            self.not_before = Instant::now() + FULL_WAIT;
            return;
        };
        self.credits = self.credits.saturating_sub(leased.firings.len());
        let pending_reply = self.held.take(&mut leased, self.admitted.now());
        slot.send(QueuedResponse { result: Ok(response), reservation, pending_reply });
    }

    /// Handles a failed lease. The next one comes after the wait that the store asks for, and not before
    /// a growing pause. A permanent error ends the stream.
    fn back_off(&mut self, error: Error) -> Result<(), Problem> {
        let wait = match error.retry() {
            Retry::Never => return Err(error.into()),
            Retry::Now => Duration::ZERO,
            Retry::After(wait) => wait.to_std(),
        };
        self.not_before = Instant::now() + wait.max(self.backoff);
        self.backoff = (self.backoff * 2).min(BACKOFF_MAX);
        Ok(())
    }

    /// Begins the stop: no more firings are sent.
    fn stop(&mut self) {
        self.stops_at = Some(Instant::now() + DRAIN_MAX);
        let stopping = queued(&self.admitted, Kind::Stopping(v1::Stopping {}));
        // The stop does not wait for a consumer that does not read.
        self.responses.try_send(stopping).ok();
    }
}

/// Returns a counted response. It is counted without a check, because its change has been made.
fn queued(admitted: &Admitted, kind: Kind) -> QueuedResponse {
    let response = v1::ConsumeResponse { kind: Some(kind) };
    let reservation = admitted.budget().reserve_unchecked(response.encoded_len());
    QueuedResponse { result: Ok(response), reservation, pending_reply: None }
}

/// Waits until a time, if there is one.
fn wait_until(moment: Option<Instant>) -> OptionFuture<Sleep> {
    moment.map(sleep_until).into()
}

/// Returns the extension of a lease by a verdict; any other verdict ends the lease.
const fn extension_of(verdict: &SettleVerdict) -> Option<Millis> {
    match verdict {
        SettleVerdict::Extend { lease } => Some(*lease),
        _ => None,
    }
}
