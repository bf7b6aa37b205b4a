//! One push attempt, from its claim to its verdict.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use duly_core::{
    Destination, NamespaceName,
    timer::{AttemptOutcome, Wait},
};
use duly_sink::{Delivery, Envelope};
use duly_store::{Firing, Lane, MemberId, SettleVerdict, Token};

use crate::{
    lanes::{Kind, Permit, Receiver, Reception},
    phase::Phase,
    record::Way,
    settler::{Slot, lease_lost},
    state::Shared,
};

/// How long after its claim was sent a firing may still go out; later it is handed back. The lease
/// of a node has no end of its own, but settings and payload grow old with the claim.
pub(crate) const HOLD_FOR: Duration = Duration::from_secs(10 * 60);

/// The claim that brought a firing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claimed {
    /// Who claimed.
    pub(crate) run: MemberId,
    /// The boot-time clock before the claim was sent.
    pub(crate) sent_at: Duration,
}

/// Starts the attempt, which holds this.
pub(crate) fn start(shared: &Arc<Shared>, firing: Firing, permit: Permit, claim: Claimed) {
    let lane = Lane { namespace: firing.namespace.clone(), key: firing.lane.clone() };
    let slot = Slot::new(Arc::clone(shared), lane, permit);
    let attempt = Attempt {
        shared: Arc::clone(shared),
        token: firing.token.clone(),
        namespace: firing.namespace.clone(),
        slot: Some(slot),
    };
    tokio::spawn(run(attempt, firing, claim));
}

async fn run(mut attempt: Attempt, firing: Firing, claim: Claimed) {
    let shared = Arc::clone(&attempt.shared);
    let receiver = attempt.choose(&firing);
    let chosen = match (&firing.settings.fallback, receiver) {
        (Some(fallback), Receiver::Fallback) => Destination::Http(fallback.destination.clone()),
        (None, Receiver::Fallback) => {
            // The fallback was removed between plan and claim, and the lane's own receiver is shut.
            attempt.conclude(SettleVerdict::Release);
            return;
        }
        (_, Receiver::Own) => firing.destination,
    };
    let Destination::Http(destination) = chosen else {
        let reason = "this node has no way to deliver to the timer's destination";
        let delivery = Delivery::failed(AttemptOutcome::NotConnected, reason);
        attempt.conclude(verdict(delivery));
        return;
    };
    let boot = shared.clock.boot();
    let held_for = boot.saturating_sub(claim.sent_at);
    let may_send_for = HOLD_FOR.saturating_sub(held_for);
    // Whoever is not heard by the others does not send: they may have sent it already.
    let may_send = shared.nodes.may_send(claim.run, boot);
    if may_send_for.is_zero() || !may_send || shared.phases.now() >= Phase::CutOff {
        attempt.conclude(SettleVerdict::Release);
        return;
    }
    let kind = Kind::of_attempt(firing.attempt);
    shared.recorder.lateness(Way::Push, kind, firing.claimable_since, shared.clock.wall());
    let started = Instant::now();
    let envelope = Envelope {
        namespace: firing.namespace,
        id: firing.id,
        delivery_id: firing.delivery_id,
        attempt: firing.attempt,
        due_at: firing.due_at,
        headers: firing.headers,
        payload: firing.payload,
        destination,
        signing_secrets: firing.settings.signing_secrets.clone(),
        trace_parent: firing.trace_parent,
        deadline: started + may_send_for,
    };
    // The sink promises to end by itself; one that does not must not keep its slot for ever.
    let timeout = envelope.destination.timeout.to_std().min(may_send_for);
    let patience = timeout.saturating_add(shared.options.stall_after);
    let (id, delivery_id, number) = (envelope.id.clone(), envelope.delivery_id, envelope.attempt);
    let delivery = tokio::select! {
        biased;
        delivery = shared.sink.deliver(envelope) => delivery,
        () = shared.phases.reached(Phase::CutOff) => {
            attempt.conclude(lease_lost(Wait::None, "the node stopped before the receiver answered"));
            return;
        }
        () = tokio::time::sleep(patience) => {
            shared.watch.restarted("a delivery", "did not end with its time-out");
            attempt.report(Reception::Bad);
            attempt.conclude(lease_lost(Wait::Policy, "the delivery did not end in its time"));
            return;
        }
    };
    attempt.report(reception(&delivery));
    let delivery = told(delivery, receiver);
    shared.recorder.delivery(started.elapsed());
    if let Delivery::Failed { reason, .. } | Delivery::Rejected { reason } = &delivery
        && let Some(held_back) = shared.failed_attempts.admit(shared.clock.boot())
    {
        let (namespace, outcome) = (&attempt.namespace, delivery.outcome().as_str());
        tracing::warn!(
            %namespace, %id, %delivery_id, attempt = number, outcome, reason, held_back,
            "an attempt failed"
        );
    }
    attempt.conclude(verdict(delivery));
}

/// A failure of the fallback says so.
fn told(delivery: Delivery, receiver: Receiver) -> Delivery {
    let of = |reason| format!("fallback: {reason}");
    match delivery {
        _ if receiver == Receiver::Own => delivery,
        Delivery::Confirmed => Delivery::Confirmed,
        Delivery::Failed { kind, wait, reason } => {
            Delivery::Failed { kind, wait, reason: of(reason) }
        }
        Delivery::Rejected { reason } => Delivery::Rejected { reason: of(reason) },
    }
}

/// What an attempt says of its receiver. Whoever answers "never again" is there.
const fn reception(delivery: &Delivery) -> Reception {
    match delivery {
        Delivery::Confirmed | Delivery::Rejected { .. } => Reception::Good,
        Delivery::Failed { .. } => Reception::Bad,
    }
}

fn verdict(delivery: Delivery) -> SettleVerdict {
    match delivery {
        Delivery::Confirmed => SettleVerdict::Ack,
        Delivery::Failed { kind, wait, reason } => {
            SettleVerdict::Retry { wait, outcome: kind, reason }
        }
        Delivery::Rejected { reason } => SettleVerdict::Dead { reason },
    }
}

/// The duty to say what became of a claimed firing. Dropped without a verdict (a panic of the
/// sink) it says that the lease was lost, so that neither the firing nor its slot stays behind.
struct Attempt {
    shared: Arc<Shared>,
    token: Token,
    namespace: NamespaceName,
    slot: Option<Slot>,
}

impl Attempt {
    /// Which receiver the attempt goes to: the fallback, when the lane's own does not answer or this
    /// firing has failed often enough, since it was sent again where it was.
    fn choose(&mut self, firing: &Firing) -> Receiver {
        let Some(slot) = &mut self.slot else {
            return Receiver::Own;
        };
        let fallback = firing.settings.fallback.as_ref();
        let attempt = firing.attempt.saturating_sub(firing.budget_from);
        if fallback.is_some_and(|fallback| attempt > fallback.after_attempts) {
            slot.divert();
        }
        slot.receiver()
    }

    /// Tells the lane at once, before the verdict is durable.
    fn report(&mut self, reception: Reception) {
        if let Some(slot) = &mut self.slot {
            slot.report(reception);
        }
    }

    fn conclude(mut self, verdict: SettleVerdict) {
        self.say(verdict);
    }

    fn say(&mut self, verdict: SettleVerdict) {
        let Some(slot) = self.slot.take() else {
            return;
        };
        let (token, namespace) = (self.token.clone(), self.namespace.clone());
        self.shared.settle_later(token, namespace, verdict, Some(slot));
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        // What broke once may break again, so the next attempt waits as after any failure.
        self.say(lease_lost(Wait::Policy, "the delivery broke off without a verdict"));
    }
}
