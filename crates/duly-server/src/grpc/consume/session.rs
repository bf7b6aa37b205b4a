//! One consumer's stream, from its first request to its end.

use std::{future::Future, pin::Pin, time::Duration};

use duly_core::{
    Invalid, Millis, NamespaceName,
    namespace::{LEASE_MAX, LEASE_MIN},
};
use duly_node::{Held, LeaseRequest, Leased};
use duly_proto::v1::{self, consume_response::Kind};
use duly_store::{SettleOutcome, SettleVerdict, Token};
use futures::future::OptionFuture;
use prost::Message;
use tokio::{
    sync::mpsc::{OwnedPermit, Sender},
    time::{Instant, sleep, sleep_until, timeout},
};
use tonic::{Status, Streaming};

use super::Waiting;
use crate::{
    grpc::{
        namespace, required,
        status::{of_library, too_late},
    },
    http::{
        App, Problem,
        body::aside,
        settle::{SETTLEMENT_BYTES, set_aside},
    },
    wire::{
        firing::{LEASE_COUNT_MAX, LEASE_WAIT_MAX},
        proto::{
            firing::firing_out,
            settlement::{settled_out, settlements_in},
            time::maybe_duration_in,
        },
    },
};

/// Firings of one answer; more come in the next one.
const FIRINGS_MAX: usize = 1_000;
/// Bytes of payloads and headers of one answer; the first firing comes whatever its size.
const FIRINGS_BYTES_MAX: u64 = 1024 * 1024;
/// Firings that a consumer may hold, and credits that it may have given.
const HELD_MAX: usize = LEASE_COUNT_MAX as usize;
/// Wait before the next lease after one that ended early with nothing: the namespace is paused.
const PAUSED_WAIT: Duration = Duration::from_secs(1);
/// Wait before another look at a memory of bodies that was full.
const FULL_WAIT: Duration = Duration::from_millis(250);
/// How long verdicts are taken while the server stops.
const DRAIN_MAX: Duration = Duration::from_secs(5);

/// A lease under way, with the place for its answer.
type Leasing = Pin<Box<dyn Future<Output = Result<Got, Problem>> + Send>>;

/// What a lease came to.
struct Got {
    place: OwnedPermit<Waiting>,
    leased: Leased,
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
        mut requests: Streaming<v1::ConsumeRequest>,
        answers: Sender<Waiting>,
    ) -> Result<(), Status> {
        let limit = app.limits().request_timeout;
        let first = timeout(limit, requests.message());
        let first = first.await.map_err(|_elapsed| too_late(Some(limit)))?.map_err(of_library)?;
        let Some(mut first) = first else { return Ok(()) };
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
            let full = session.stops_at.is_none() && session.held.len() >= HELD_MAX;
            let ends_at = session.stops_at;
            tokio::select! {
                biased;
                () = app.stopping(), if session.stops_at.is_none() => {
                    // Its claims, if it has any, go back.
                    (leasing, is_leasing) = (None.into(), false);
                    session.stop();
                }
                () = async { sleep_until(ends_at.unwrap_or_else(Instant::now)).await },
                    if ends_at.is_some() => return Ok(()),
                request = requests.message() => match request.map_err(of_library)? {
                    Some(request) => session.take(request).await?,
                    None => return Ok(()),
                },
                Some(leased) = &mut leasing, if is_leasing => {
                    (leasing, is_leasing) = (None.into(), false);
                    session.hand_out(leased?);
                }
                () = sleep(PAUSED_WAIT), if full => session.held.forget_ended(app.now()),
            }
            if session.goes() == Goes::ToItsEnd {
                return Ok(());
            }
        }
    }

    fn open(app: App, open: v1::ConsumeOpen, answers: Sender<Waiting>) -> Result<Self, Problem> {
        let lease = maybe_duration_in("open.lease", open.lease)?;
        let lease = lease.map(|it| it.check_within("open.lease", LEASE_MIN, LEASE_MAX));
        Ok(Self {
            namespace: namespace(&open.namespace)?,
            lease: lease.transpose()?,
            answers,
            credits: 0,
            held: Held::default(),
            not_before: Instant::now(),
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

    async fn settle(&mut self, settlements: Vec<v1::Settlement>) -> Result<(), Problem> {
        let share = set_aside(self.app.budget(), settlements.len())?;
        let (namespace, bytes) = (self.namespace.clone(), settlements.len() * SETTLEMENT_BYTES);
        let asked = aside(bytes, move || Ok(settlements_in(&namespace, settlements))).await?;
        let tokens: Vec<_> = asked
            .iter()
            .map(|asked| {
                asked.as_ref().ok()?.as_ref().map(|it| (it.token.clone(), ends(&it.verdict)))
            })
            .collect();
        let results = self.app.settle_many(asked).await?;
        for (token, result) in tokens.iter().zip(&results) {
            if let (Some((token, ends)), Ok(outcome)) = (token, result) {
                self.settled(token, *ends, *outcome);
            }
        }
        let results = results.into_iter().map(settled_out).collect();
        self.say(Kind::Settled(v1::SettleResponse { results })).await;
        drop(share);
        Ok(())
    }

    fn settled(&mut self, token: &Token, ends: Ends, outcome: SettleOutcome) {
        match (ends, outcome) {
            (_, SettleOutcome::InDoubt | SettleOutcome::InvalidToken) => {}
            (Ends::No, SettleOutcome::Ok | SettleOutcome::AlreadySettled) => self.held.keep(token),
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

    /// Waits for a place, then for firings.
    fn lease(&self) -> Leasing {
        let (app, answers, not_before) = (self.app.clone(), self.answers.clone(), self.not_before);
        let request = LeaseRequest {
            namespace: self.namespace.clone(),
            max: self.room(),
            bytes_max: FIRINGS_BYTES_MAX,
            lease: self.lease,
            wait: LEASE_WAIT_MAX.to_std(),
        };
        Box::pin(async move {
            sleep_until(not_before).await;
            // Whoever has no place has a consumer that is gone: the session ends with it.
            let Ok(place) = answers.reserve_owned().await else { std::future::pending().await };
            while app.budget().take(1).is_err() {
                sleep(FULL_WAIT).await;
            }
            let began = Instant::now();
            Ok(Got { place, leased: app.node().lease(request).await?, began })
        })
    }

    fn hand_out(&mut self, Got { place, mut leased, began }: Got) {
        if leased.firings.is_empty() {
            // One that has waited its whole time is followed by the next one at once.
            self.not_before = began + PAUSED_WAIT;
            if leased.paused {
                self.not_before = Instant::now() + PAUSED_WAIT;
            }
            return;
        }
        self.credits = self.credits.saturating_sub(leased.firings.len());
        let firings = leased.firings.iter().map(firing_out).collect();
        self.held.take(&mut leased);
        place.send(waiting(&self.app, Kind::Firings(v1::Firings { firings })));
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
    (Ok(answer), share)
}

/// Whether a verdict ends its lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ends {
    Yes,
    No,
}

const fn ends(verdict: &SettleVerdict) -> Ends {
    match verdict {
        SettleVerdict::Extend { .. } => Ends::No,
        _ => Ends::Yes,
    }
}
