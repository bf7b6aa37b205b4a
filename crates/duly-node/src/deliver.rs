//! One push attempt, from its claim to its verdict.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use duly_core::{
    NamespaceName,
    timer::{self, AttemptOutcome, Wait},
};
use duly_sink::{Delivery, Envelope, ReceiverHealth};
use duly_store::{Firing, Lane, MemberId, SettleVerdict, Token};

use crate::{
    lanes::{AttemptKind, Permit, Receiver},
    phase::Phase,
    recorder::DeliveryMode,
    settler::{Slot, lease_lost},
    state::Shared,
    traces::TimerSpan,
};

/// Time after its claim was sent within which a firing may be sent; later it is released. The lease of a
/// node does not expire, but settings and payload become outdated.
pub(crate) const HOLD_FOR: Duration = Duration::from_secs(10 * 60);

/// The claim that brought a firing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClaimContext {
    /// Member id of the node at the claim.
    pub(crate) member_id: MemberId,
    /// The boot-time clock before the claim was sent.
    pub(crate) sent_at: Duration,
}

/// Starts the attempt of a claimed firing, which holds the permit.
pub(crate) fn start(shared: &Arc<Shared>, firing: Firing, permit: Permit, claim: ClaimContext) {
    let lane = Lane { namespace: firing.namespace.clone(), key: firing.lane.clone() };
    let slot = Slot { shared: Arc::clone(shared), lane, permit, is_reported: false };
    let attempt = Attempt {
        shared: Arc::clone(shared),
        token: firing.token.clone(),
        namespace: firing.namespace.clone(),
        slot: Some(slot),
        span: TimerSpan::default(),
    };
    tokio::spawn(run(attempt, firing, claim));
}

async fn run(mut attempt: Attempt, mut firing: Firing, claim: ClaimContext) {
    let shared = Arc::clone(&attempt.shared);
    let receiver = attempt.choose_receiver(&firing);
    let chosen = match (&firing.settings.fallback, receiver) {
        (Some(fallback), Receiver::Fallback) => fallback.destination.clone(),
        (None, Receiver::Fallback) => {
            // The fallback was removed between plan and claim, and the breaker of the lane's own
            // receiver is open.
            attempt.settle(SettleVerdict::Release);
            return;
        }
        (_, Receiver::Own) => firing.take_destination(),
    };
    let Some(destination) = chosen.into_http() else {
        let reason = "this node cannot deliver to the timer's destination";
        let delivery = Delivery::failed(AttemptOutcome::NotConnected, reason);
        attempt.settle(verdict(delivery));
        return;
    };
    let boot = shared.clock.boot();
    let held_for = boot.saturating_sub(claim.sent_at);
    let may_send_for = HOLD_FOR.saturating_sub(held_for);
    // A node without acknowledged heartbeats must not send: another node may have sent the firing
    // already.
    let may_send = shared.nodes.may_send(claim.member_id, boot);
    if may_send_for.is_zero() || !may_send || shared.phases.now() >= Phase::CutOff {
        attempt.settle(SettleVerdict::Release);
        return;
    }
    let kind = AttemptKind::of(firing.attempt);
    shared.recorder.lateness(
        DeliveryMode::Push,
        kind,
        &firing.namespace,
        firing.claimable_since,
        shared.clock.wall(),
    );
    let started = Instant::now();
    attempt.span = shared.options.traces.deliver(&firing, DeliveryMode::Push);
    let envelope = Envelope {
        namespace: firing.namespace,
        id: firing.id,
        delivery_id: firing.delivery_id,
        attempt: firing.attempt,
        due_at: firing.due_at,
        spec: firing.spec,
        destination,
        signing_secrets: firing.settings.signing_secrets.clone(),
        delivery_trace_parent: attempt.span.trace_parent(),
        deadline: started + may_send_for,
    };
    // The sink ends by itself at its time-out. If it does not, it must not keep its slot for ever.
    let timeout = envelope.destination.timeout.to_std().min(may_send_for);
    let time_limit = timeout.saturating_add(shared.options.stall_after);
    let (id, delivery_id, number) = (envelope.id.clone(), envelope.delivery_id, envelope.attempt);
    let mut delivery = tokio::select! {
        biased;
        delivery = shared.sink.deliver(envelope) => delivery,
        () = shared.phases.reached(Phase::CutOff) => {
            attempt.settle(lease_lost(Wait::None, "the node stopped before the receiver replied"));
            return;
        }
        () = tokio::time::sleep(time_limit) => {
            shared.watch.restarted("a delivery", "did not end at its time-out");
            attempt.report(ReceiverHealth::Silent);
            attempt.settle(lease_lost(Wait::Policy, "the delivery did not end at its time-out"));
            return;
        }
    };
    attempt.report(delivery.health());
    if receiver == Receiver::Fallback
        && let Delivery::Failed { reason, .. } | Delivery::Rejected { reason } = &mut delivery
    {
        reason.insert_str(0, timer::FALLBACK);
    }
    shared.recorder.delivery(started.elapsed());
    if let Delivery::Failed { reason, .. } | Delivery::Rejected { reason } = &delivery
        && let Some(held_back) = shared.failed_attempts.admit(shared.clock.boot())
    {
        let (namespace, outcome) = (&attempt.namespace, delivery.outcome().as_str());
        // The receiver may repeat the payload.
        let reason = timer::own_reason(reason);
        tracing::warn!(
            %namespace, %id, %delivery_id, attempt = number, outcome, reason, held_back,
            "attempt failed; the retry policy decides what follows"
        );
    }
    attempt.settle(verdict(delivery));
}

fn verdict(delivery: Delivery) -> SettleVerdict {
    match delivery {
        Delivery::Confirmed => SettleVerdict::Ack,
        Delivery::Failed { kind, wait, reason, .. } => {
            SettleVerdict::Retry { wait, outcome: kind, reason }
        }
        Delivery::Snoozed { after } => SettleVerdict::Snooze { after },
        Delivery::Rejected { reason } => SettleVerdict::Dead { reason },
    }
}

/// An obligation to settle a claimed firing. If it is dropped without a verdict (the sink panicked) it
/// settles the firing as a lost lease, so that neither the firing nor its slot leaks.
struct Attempt {
    shared: Arc<Shared>,
    token: Token,
    namespace: NamespaceName,
    slot: Option<Slot>,
    /// The *deliver* span, from the beginning of the exchange with the receiver.
    span: TimerSpan,
}

impl Attempt {
    /// Chooses the receiver of the attempt. It is the fallback if the breaker of the lane's own receiver
    /// is open, or if this firing has failed often enough since its last redrive.
    fn choose_receiver(&mut self, firing: &Firing) -> Receiver {
        let Some(slot) = &mut self.slot else {
            return Receiver::Own;
        };
        let fallback = firing.settings.fallback.as_ref();
        let attempt = firing.attempt.saturating_sub(firing.budget_from);
        if fallback.is_some_and(|fallback| attempt > fallback.after_attempts) {
            slot.divert();
        }
        slot.permit.to
    }

    /// Reports the health of the receiver at once, before the verdict is durable.
    fn report(&mut self, health: ReceiverHealth) {
        if let Some(slot) = &mut self.slot {
            slot.report(health);
        }
    }

    fn settle(&mut self, verdict: SettleVerdict) {
        let Some(slot) = self.slot.take() else {
            return;
        };
        let (token, namespace) = (self.token.clone(), self.namespace.clone());
        let deliver = std::mem::take(&mut self.span);
        let span = self.shared.options.traces.settle_attempt(deliver, &verdict);
        self.shared.settle_later(token, namespace, verdict, Some((slot, span)));
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        // It may fail again, so the next attempt waits as after any failure.
        self.settle(lease_lost(Wait::Policy, "the delivery was aborted without a verdict"));
    }
}
