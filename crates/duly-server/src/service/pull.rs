//! Leases of firings, and their settlements.

use std::sync::Arc;

use duly_api::{
    LeaseResponse, SettleResult, Settlement as SettlementMessage, lease::LeaseCall,
    settle::SETTLEMENTS_MAX,
};
use duly_core::{Invalid, NamespaceName};
use duly_node::{LeaseRequest, Leased};
use duly_store::{Error, SettleOutcome, Settlement, Token};

use super::{Admitted, items::too_many};
use crate::{
    memory::{
        budget::{Budget, Reservation},
        lease_reservation::LeaseReservation,
    },
    messages,
    problem::Problem,
};

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
        let leased = admitted.node.lease(request).await?;
        // The call may have waited. Claims that are dropped are released.
        admitted.check_still_valid()?;
        Ok(Self { leased, memory })
    }

    /// Returns the firings in the form of a response.
    pub(crate) fn shown(&self) -> LeaseResponse {
        let firings = self.leased.firings.iter().map(messages::firing).collect();
        LeaseResponse { firings, paused: self.leased.paused }
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
pub(crate) type CheckedSettlement = Result<Option<Settlement>, Invalid>;

impl Admitted {
    /// Settles leases. Returns one result for each settlement, in their order. A shard that fails
    /// refuses only its own settlements, unless all shards fail.
    pub(crate) async fn settle_many(
        &self,
        checked: Vec<CheckedSettlement>,
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
pub(crate) fn check_settlement(
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

/// Returns the settlements of one message, checked.
pub(crate) fn check_settlements(
    namespace: &NamespaceName,
    settlements: Vec<SettlementMessage>,
) -> Vec<CheckedSettlement> {
    let settlements = settlements.into_iter().enumerate();
    settlements.map(|(i, settlement)| check_settlement(namespace, i, Ok(settlement))).collect()
}

/// Reserves the memory of `count` settlements and their results, unless the number is over the limit.
pub(crate) fn reserve_settlements(budget: &Budget, count: usize) -> Result<Reservation, Problem> {
    if count > SETTLEMENTS_MAX {
        return Err(too_many("settlements", count, SETTLEMENTS_MAX));
    }
    budget.reserve(count * SETTLEMENT_BYTES)
}

/// Returns the problem of a settlement whose outcome is not known.
fn in_doubt() -> Problem {
    Error::InDoubt { reason: "the store could not write it; settle the same way again".into() }
        .into()
}
