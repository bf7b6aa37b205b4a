//! One consumer's stream, from its first request to its end.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use duly_api::{
    lease::{LEASE_COUNT_MAX, LEASE_WAIT_MAX},
    v1::{self, consume_response::Kind},
};
use duly_core::{
    Invalid, Millis, NamespaceName,
    error_code::Retry,
    namespace::{LEASE_MAX, LEASE_MIN},
};
use duly_node::{Held, LeaseRequest, Leased};
use duly_store::{Error, SettleOutcome, SettleVerdict, Token};
use futures::future::OptionFuture;
use prost::Message;
use tokio::{
    sync::mpsc::{OwnedPermit, Sender},
    time::{Instant, sleep_until},
};
use tonic::Status;

use super::{Waiting, requests::Requests};
use crate::{
    grpc::{namespace, pull::settlements, required},
    http::{
        App, Problem,
        body::aside,
        room::LeaseRoom,
        settle::{self, SETTLEMENT_BYTES, set_aside},
    },
    messages,
};

/// Firings of one answer; more come in the next one.
const FIRINGS_MAX: usize = 1_000;
/// Bytes of payloads and headers of one answer; the first firing comes whatever its size.
const FIRINGS_BYTES_MAX: u64 = 1024 * 1024;
/// Firings that a consumer may hold, and credits that it may have given.
const HELD_MAX: usize = LEASE_COUNT_MAX as usize;
/// Wait before the next lease after one that ended early with nothing: the namespace is paused.
const PAUSED_WAIT: Duration = Duration::from_secs(1);
/// Wait before the next lease after one whose answer did not fit into the memory of bodies.
const FULL_WAIT: Duration = Duration::from_secs(1);
/// Wait before the next lease after one that failed; it doubles with each that fails in a row.
const BACKOFF_MIN: Duration = Duration::from_millis(20);
/// Longest such wait, unless the store says that it needs more.
const BACKOFF_MAX: Duration = Duration::from_secs(2);
/// How long verdicts are taken while the server stops.
const DRAIN_MAX: Duration = Duration::from_secs(5);

/// A lease under way, with the place for its answer.
type Leasing = Pin<Box<dyn Future<Output = Result<Got, Error>> + Send>>;

/// What a lease came to.
struct Got {
    place: OwnedPermit<Waiting>,
    leased: Leased,
    room: Arc<LeaseRoom>,
    began: Instant,
}

/// A consumer.
pub(super) struct Session {
    app: App,
    namespace: NamespaceName,
    lease: Option<Millis>,
    answers: Sender<Waiting>,
    credits: usize,
    held: Held,
    /// When the next lease may begin.
    not_before: Instant,
    /// The wait after the next lease that fails.
    backoff: Duration,
    /// When the stream ends at the latest, while the server stops.
    stops_at: Option<Instant>,
}

/// Whether a stream goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Goes {
    On,
    ToItsEnd,
}

impl Session {
    /// Serves a stream until either side ends it.
    pub(super) async fn run(
        app: App,
        mut requests: Requests,
        answers: Sender<Waiting>,
    ) -> Result<(), Status> {
        // It comes in time, or not at all: the bounds of what comes in see to it.
        let Some(mut first) = requests.next().await? else { return Ok(()) };
        let open = required("open", first.open.take())?;
        let mut session = Self::open(app.clone(), open, answers)?;
        session.take(first).await?;
        let mut leasing: OptionFuture<Leasing> = None.into();
        let mut is_leasing = false;
        loop {
            if !is_leasing && session.may_lease() {
                leasing = Some(session.lease()).into();
                is_leasing = true;
            }
            let (ends_at, lease_ends_at) = (session.stops_at, session.held.next_end());
            tokio::select! {
                biased;
                () = app.stopping(), if session.stops_at.is_none() => {
                    // Its claims, if it has any, go back.
                    (leasing, is_leasing) = (None.into(), false);
                    session.stop();
                }
                () = at(ends_at), if ends_at.is_some() => return Ok(()),
                () = at(lease_ends_at), if lease_ends_at.is_some() => {
                    session.held.forget_ended(Instant::now());
                }
                request = requests.next() => match request? {
                    Some(request) => session.take(request).await?,
                    None => return Ok(()),
                },
                Some(leased) = &mut leasing, if is_leasing => {
                    (leasing, is_leasing) = (None.into(), false);
                    match leased {
                        Ok(got) => session.hand_out(got),
                        Err(error) => session.put_off(error)?,
                    }
                }
            }
            if session.goes() == Goes::ToItsEnd {
                return Ok(());
            }
        }
    }

    fn open(app: App, open: v1::ConsumeOpen, answers: Sender<Waiting>) -> Result<Self, Problem> {
        let lease = open.lease;
        let lease = lease.map(|it| it.check_within("open.lease", LEASE_MIN, LEASE_MAX));
        Ok(Self {
            namespace: namespace(&open.namespace)?,
            lease: lease.transpose()?,
            answers,
            credits: 0,
            held: Held::default(),
            not_before: Instant::now(),
            backoff: BACKOFF_MIN,
            stops_at: None,
            app,
        })
    }

    /// Takes what a request gives: credits and verdicts.
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

    async fn settle(&mut self, given: Vec<v1::Settlement>) -> Result<(), Problem> {
        let share = set_aside(self.app.budget(), given.len())?;
        let (namespace, bytes) = (self.namespace.clone(), given.len() * SETTLEMENT_BYTES);
        let asked = aside(bytes, move || Ok(settlements(&namespace, given))).await?;
        let tokens: Vec<_> = asked
            .iter()
            .map(|asked| {
                asked.as_ref().ok()?.as_ref().map(|it| (it.token.clone(), extended(&it.verdict)))
            })
            .collect();
        let count = asked.len();
        let results = match self.app.settle_many(asked).await {
            Err(problem) if problem.can_pass() => vec![Err(problem); count],
            settled => settled?,
        };
        for (token, result) in tokens.iter().zip(&results) {
            if let (Some((token, extended)), Ok(outcome)) = (token, result) {
                self.settled(token, *extended, *outcome);
            }
        }
        let results = results.into_iter().map(settle::result).collect();
        self.say(Kind::Settled(v1::SettleResponse { results, leased: None })).await;
        drop(share);
        Ok(())
    }

    fn settled(&mut self, token: &Token, extended: Option<Millis>, outcome: SettleOutcome) {
        match (extended, outcome) {
            (_, SettleOutcome::InDoubt | SettleOutcome::InvalidToken) => {}
            (Some(lease), SettleOutcome::Ok | SettleOutcome::AlreadySettled) => {
                self.held.extend(token, lease);
            }
            _ => self.held.let_go(token),
        }
    }

    /// Says something; waits for a place, and is not heard when the consumer is gone.
    async fn say(&self, kind: Kind) {
        self.answers.send(waiting(&self.app, kind)).await.ok();
    }

    /// How many firings the consumer takes now.
    fn room(&self) -> usize {
        self.credits.min(HELD_MAX.saturating_sub(self.held.len())).min(FIRINGS_MAX)
    }

    fn may_lease(&self) -> bool {
        self.stops_at.is_none() && self.room() > 0
    }

    /// Waits for a place, then for firings; their memory is set aside as they are claimed.
    fn lease(&self) -> Leasing {
        let (app, answers, not_before) = (self.app.clone(), self.answers.clone(), self.not_before);
        let room = Arc::new(LeaseRoom::new(app.budget()));
        let request = LeaseRequest {
            namespace: self.namespace.clone(),
            max: self.room(),
            bytes_max: FIRINGS_BYTES_MAX,
            lease: self.lease,
            wait: LEASE_WAIT_MAX.to_std(),
            room: Some(Arc::<LeaseRoom>::clone(&room)),
        };
        Box::pin(async move {
            sleep_until(not_before).await;
            // Whoever has no place has a consumer that is gone: the session ends with it.
            let Ok(place) = answers.reserve_owned().await else { std::future::pending().await };
            let began = Instant::now();
            let leased = app.node().lease(request).await?;
            Ok(Got { place, leased, room, began })
        })
    }

    fn hand_out(&mut self, Got { place, mut leased, room, began }: Got) {
        self.backoff = BACKOFF_MIN;
        if leased.firings.is_empty() {
            // One that has waited its whole time is followed by the next one at once.
            self.not_before = began + PAUSED_WAIT;
            if leased.paused {
                self.not_before = Instant::now() + PAUSED_WAIT;
            }
            return;
        }
        let firings = leased.firings.iter().map(messages::firing).collect();
        let kind = Some(Kind::Firings(v1::Firings { firings }));
        let answer = v1::ConsumeResponse { kind };
        let Ok(share) = room.for_answer(self.app.budget(), answer.encoded_len()) else {
            // The claims go back uncounted, for later.
            self.not_before = Instant::now() + FULL_WAIT;
            return;
        };
        self.credits = self.credits.saturating_sub(leased.firings.len());
        let way = self.held.take(&mut leased, self.app.now());
        place.send(Waiting { answer: Ok(answer), share, way });
    }

    /// A lease failed: the next one comes when the store says that it can help, and not before a
    /// pause that grows. What cannot pass ends the stream.
    fn put_off(&mut self, error: Error) -> Result<(), Problem> {
        let wait = match error.retry() {
            Retry::Never => return Err(error.into()),
            Retry::Now => Duration::ZERO,
            Retry::After(wait) => wait.to_std(),
        };
        self.not_before = Instant::now() + wait.max(self.backoff);
        self.backoff = (self.backoff * 2).min(BACKOFF_MAX);
        Ok(())
    }

    /// The server stops: nothing more is handed out.
    fn stop(&mut self) {
        self.stops_at = Some(Instant::now() + DRAIN_MAX);
        let said = waiting(&self.app, Kind::Stopping(v1::Stopping {}));
        // Who takes no answers is not waited for.
        self.answers.try_send(said).ok();
    }

    fn goes(&self) -> Goes {
        if self.stops_at.is_some() && self.held.is_empty() { Goes::ToItsEnd } else { Goes::On }
    }
}

/// An answer, counted: what it tells of has been done.
fn waiting(app: &App, kind: Kind) -> Waiting {
    let answer = v1::ConsumeResponse { kind: Some(kind) };
    let share = app.budget().take_anyway(answer.encoded_len());
    Waiting { answer: Ok(answer), share, way: None }
}

/// Done at this moment, if there is one.
async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// How much longer a verdict lets its lease run; any other ends it.
const fn extended(verdict: &SettleVerdict) -> Option<Millis> {
    match verdict {
        SettleVerdict::Extend { lease } => Some(*lease),
        _ => None,
    }
}
