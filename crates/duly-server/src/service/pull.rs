//! Leases of firings, and their settlements.

use std::sync::Arc;

use duly_api::{
    LeaseResponse, SettleResult, Settlement as SettlementMessage,
    lease::{LEASE_WAIT_MAX, LeaseCall},
    settle::SETTLEMENTS_MAX,
};
use duly_core::{Invalid, Millis, NamespaceName};
use duly_node::{LeaseRequest, Leased};
use duly_store::{Error, SettleOutcome, SettleVerdict, Settlement, Token};

use super::{Admitted, items::too_many};
use crate::{
    memory::{budget::Reservation, lease_reservation::LeaseReservation},
    messages,
    problem::Problem,
    tenants::Slot,
};

/// Most firings of one response of a stream; more come in the next one.
const STREAM_FIRINGS_MAX: usize = 1_000;
/// Most bytes of payloads and headers of one response of a stream; the first firing may have any size.
const STREAM_BYTES_MAX: u64 = 1024 * 1024;

/// Firings that were claimed for a consumer. Claims that are not handed over are released and do not
/// count as attempts.
pub(crate) struct Claims {
    pub(crate) leased: Leased,
    pub(crate) memory: Arc<LeaseReservation>,
}

impl Claims {
    /// Claims firings, and waits for one as long as the call says.
    pub(crate) async fn take(
        admitted: &Admitted,
        namespace: NamespaceName,
        lease: LeaseCall,
    ) -> Result<Self, Problem> {
        let caller = admitted.caller();
        let tenant = caller.tenant().filter(|_| !lease.wait.is_zero());
        let _slot = tenant.map(|tenant| tenant.admit_waiting()).transpose()?;
        let memory = Arc::new(LeaseReservation::new(&admitted.budget()));
        let request = LeaseRequest {
            namespace,
            max: lease.max,
            bytes_max: lease.bytes_max,
            lease: lease.lease,
            wait: lease.wait,
            memory: Some(Arc::<LeaseReservation>::clone(&memory)),
        };
        let name = request.namespace.clone();
        let leased = admitted.node.lease(request).await?;
        // The call may have waited. Claims that are dropped are released.
        admitted.check_still_valid()?;
        admitted.note(|notes| notes.has_changed |= !leased.firings.is_empty());
        if leased.firings.is_empty() && !leased.paused {
            admitted.note_pushed(name).await;
        }
        Ok(Self { leased, memory })
    }

    /// Claims firings after settlements, and makes a response of them.
    ///
    /// The settlements count whether or not firings can be leased: `None` is a response without firings, and the next
    /// lease call returns the reason.
    pub(crate) async fn take_after_settlements<T, F>(
        admitted: &Admitted,
        namespace: NamespaceName,
        lease: LeaseCall,
        respond: impl FnOnce(Self) -> F,
    ) -> Option<T>
    where
        F: Future<Output = Result<T, Problem>>,
    {
        let response = match Self::take(admitted, namespace, lease).await {
            Ok(claims) => respond(claims).await,
            Err(problem) => Err(problem),
        };
        let note = |problem: &Problem| {
            let code = problem.code().as_str();
            tracing::debug!(code, "settle call leased no firings; its settlements count");
        };
        response.inspect_err(note).ok()
    }

    /// Returns the firings in the form of a response.
    pub(crate) fn shown(&self) -> LeaseResponse {
        let firings = self.leased.firings.iter().map(messages::firing).collect();
        LeaseResponse { firings, paused: self.leased.paused }
    }
}

impl Admitted {
    /// Sets the notice of a response without firings if its namespace delivers to a webhook. The URL is not for every
    /// consumer.
    async fn note_pushed(&self, name: NamespaceName) {
        // A notice is not worth an error.
        let Ok(Some(found)) = self.store.get_namespace(name).await else { return };
        if !found.settings.destination.is_pull() {
            self.set_notice(format!(
                "{} delivers to a webhook: only timers with the destination pull are leased",
                found.name
            ));
        }
    }
}

/// A consumer of a stream, which has one of the waiting places of its tenant; cheap to clone. Only
/// [`Admitted::begin_consumer`] makes one.
#[derive(Debug, Clone)]
pub(crate) struct StreamConsumer {
    admitted: Admitted,
    _place: Option<Arc<Slot>>,
}

impl StreamConsumer {
    /// Claims at most `capacity` firings. The stream checks its caller itself.
    pub(crate) async fn claim(
        self,
        namespace: NamespaceName,
        capacity: usize,
        lease: Option<Millis>,
    ) -> Result<Claims, Error> {
        let memory = Arc::new(LeaseReservation::new(&self.admitted.budget()));
        let request = LeaseRequest {
            namespace,
            max: capacity.min(STREAM_FIRINGS_MAX),
            bytes_max: STREAM_BYTES_MAX,
            lease,
            wait: LEASE_WAIT_MAX.to_std(),
            memory: Some(Arc::<LeaseReservation>::clone(&memory)),
        };
        Ok(Claims { leased: self.admitted.node.lease(request).await?, memory })
    }
}

/// Approximate memory of a settlement and its result.
pub(crate) const SETTLEMENT_BYTES: usize = 192;

/// Returns the result of a settlement.
pub(crate) fn settle_result(result: Result<SettleOutcome, Problem>) -> SettleResult {
    match result {
        Ok(outcome) => outcome.into(),
        Err(problem) => problem.into_body().into(),
    }
}

/// A settlement of a caller: `None` for an invalid token, or the reason of its refusal.
type CheckedSettlement = Result<Option<Settlement>, Invalid>;

/// A call of settlements, or a step of a stream of them, which has begun: their number is within the limit. Only
/// [`Admitted::begin_settle`] and [`Admitted::begin_settle_step`] make one.
#[derive(Debug)]
pub(crate) struct SettleCall {
    namespace: NamespaceName,
    count: usize,
}

/// The settlements of a call, checked.
#[derive(Debug)]
pub(crate) struct CheckedSettlements(Vec<CheckedSettlement>);

impl SettleCall {
    /// Checks the settlements. An error names the field with its place in the list.
    pub(crate) fn check(
        self,
        messages: impl Iterator<Item = Result<SettlementMessage, Invalid>>,
    ) -> CheckedSettlements {
        let messages = messages.take(self.count).enumerate();
        CheckedSettlements(messages.map(|(i, it)| check(&self.namespace, i, it)).collect())
    }
}

impl CheckedSettlements {
    /// Returns the token and the verdict of each settlement, or `None` for one that is not sent to the store.
    pub(crate) fn sent(&self) -> impl Iterator<Item = Option<(&Token, &SettleVerdict)>> {
        self.0.iter().map(|checked| {
            let sent = checked.as_ref().ok()?.as_ref()?;
            Some((&sent.token, &sent.verdict))
        })
    }
}

impl Admitted {
    /// Begins a call of `count` settlements: refuses too many, and reserves their memory and that of their results.
    pub(crate) fn begin_settle(
        &self,
        namespace: &NamespaceName,
        count: usize,
    ) -> Result<(SettleCall, Reservation), Problem> {
        if count > SETTLEMENTS_MAX {
            return Err(too_many("settlements", count, SETTLEMENTS_MAX));
        }
        let reservation = self.budget().reserve(count * SETTLEMENT_BYTES)?;
        Ok((SettleCall { namespace: namespace.clone(), count }, reservation))
    }

    /// Begins a stream of a consumer, which waits for firings.
    pub(crate) fn begin_consumer(&self) -> Result<StreamConsumer, Problem> {
        let place = self.caller().tenant().map(|tenant| tenant.admit_waiting()).transpose()?;
        Ok(StreamConsumer { admitted: self.clone(), _place: place.map(Arc::new) })
    }

    /// Begins a step of a stream of settlements, which ends with the key of the caller or the space of the audit log.
    pub(crate) fn begin_settle_step(
        &self,
        namespace: &NamespaceName,
        count: usize,
    ) -> Result<(SettleCall, Reservation), Problem> {
        self.check_still_valid()?;
        self.audit.check_writable()?;
        self.begin_settle(namespace, count)
    }

    /// Settles leases. Returns one result for each settlement, in their order. A shard that fails
    /// refuses only its own settlements, unless all shards fail.
    pub(crate) async fn settle_many(
        &self,
        CheckedSettlements(checked): CheckedSettlements,
    ) -> Result<Vec<Result<SettleOutcome, Problem>>, Problem> {
        self.note(|notes| notes.items += checked.len() as u64);
        let mut settlements = Vec::with_capacity(checked.len());
        let mut send = |settlement: Option<Settlement>| {
            let is_sent = settlement.is_some();
            settlements.extend(settlement);
            is_sent
        };
        let slots: Vec<_> = checked.into_iter().map(|checked| checked.map(&mut send)).collect();
        let outcomes = self.node.settle(settlements, self.trace_parent()).await?;
        let has_changed = |outcome: &Result<SettleOutcome, Error>| match outcome {
            Ok(outcome) => outcome.has_changed(),
            Err(error) => matches!(error, Error::InDoubt { .. }),
        };
        self.note(|notes| notes.has_changed |= outcomes.iter().any(has_changed));
        let mut outcomes = outcomes.into_iter();
        let results = slots.into_iter().map(|slot| match slot? {
            false => Ok(SettleOutcome::InvalidToken),
            true => match outcomes.next() {
                Some(Ok(SettleOutcome::InDoubt)) | None => Err(in_doubt()),
                Some(outcome) => Ok(outcome?),
            },
        });
        Ok(results.collect())
    }
}

/// Returns a checked settlement, or `None` for an invalid token. An error names the field with its place
/// in the list.
fn check(
    namespace: &NamespaceName,
    index: usize,
    message: Result<SettlementMessage, Invalid>,
) -> CheckedSettlement {
    let settlement = message.and_then(|mut message| {
        let token = std::mem::take(&mut message.token);
        let verdict = message.verdict()?;
        let namespace = Some(namespace.clone());
        Ok(Token::parse(&token).map(|token| Settlement { token, namespace, verdict }))
    });
    settlement.map_err(|invalid| invalid.within(&format!("settlements[{index}]")))
}

/// Returns the problem of a settlement whose outcome is not known.
fn in_doubt() -> Problem {
    Error::InDoubt { reason: "the store could not write it; settle the same way again".into() }
        .into()
}
