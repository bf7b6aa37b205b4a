//! Leases and settlements without a consumer: for work that outlives a connection, or that is handed to
//! another process with its token.

use std::time::Duration;

use duly_api::{LeaseRequest, LeaseResponse, SettleOutcome, SettleResult, Settlement, v1};

use super::{Client, namespace_of};
use crate::{
    error::{Error, Result, check_count},
    retry::Safety,
};

/// Longest wait that the server accepts.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(60);

impl Client {
    /// Leases firings of the pull lane. Returns as soon as there is one, or after the `wait` of the
    /// request. That wait is added to the timeout of the call.
    pub async fn lease(&self, namespace: &str, mut request: LeaseRequest) -> Result<LeaseResponse> {
        request.namespace = namespace_of(namespace, &request.namespace)?;
        let wait = request.wait.as_ref().and_then(duly_api::Duration::to_std);
        let extra = wait.unwrap_or_default().min(WAIT_MAX);
        call!(self, timers.lease, request, Safety::Once, extra)
    }

    /// Settles up to 10,000 leased firings. Returns one result for each, in order. A refused settlement
    /// refuses only itself.
    pub async fn settle(
        &self,
        namespace: &str,
        settlements: Vec<Settlement>,
    ) -> Result<Vec<Result<SettleOutcome>>> {
        let count = settlements.len();
        let namespace = namespace_of(namespace, "")?;
        let request = v1::SettleRequest { namespace, settlements, lease: None };
        let results = call!(self, timers.settle, request)?.results;
        check_count(results.len(), count, "settlements")?;
        Ok(results.into_iter().map(settled).collect())
    }
}

/// Returns the outcome of one settlement.
pub(crate) fn settled(result: SettleResult) -> Result<SettleOutcome> {
    match (result.error, result.outcome.map(SettleOutcome::try_from)) {
        (Some(problem), _) => Err((*problem).into()),
        (None, Some(Ok(outcome))) if outcome != SettleOutcome::Unspecified => Ok(outcome),
        (None, _) => Err(Error::bad_response("the outcome of a settlement is missing or unknown")),
    }
}
