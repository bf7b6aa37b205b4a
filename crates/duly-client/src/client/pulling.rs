//! Leases and settlements by hand.

use std::time::Duration;

use duly_proto::v1;

use super::{Client, namespace_out};
use crate::{
    error::Error,
    pull::{Lease, Leased, Settled, Settlement},
    retry::Safety,
    wire::{
        answer::{leased_in, settled_in},
        request::settlement_out,
        time::duration_out,
    },
};

impl Client {
    /// Leases firings of the pull lane; answers as soon as there is one, or after its `wait`, for
    /// which the call has time on top of its own.
    pub async fn lease(&self, namespace: &str, lease: Lease) -> Result<Leased, Error> {
        let wait = lease.wait;
        let request = v1::LeaseRequest {
            namespace: namespace_out(namespace)?.as_ref().to_owned(),
            max: lease.max,
            max_bytes: lease.max_bytes,
            lease: lease.lease.map(duration_out),
            wait: (!wait.is_zero()).then(|| duration_out(wait)),
        };
        // What is longer is refused by the server.
        let on_top = wait.min(Duration::from_secs(60));
        leased_in(call!(self, timers.lease, request, Safety::Once, on_top)?)
    }

    /// Settles up to 10,000 leased firings; one result for each, in order. A verdict that is refused
    /// refuses only itself.
    pub async fn settle(
        &self,
        namespace: &str,
        settlements: Vec<Settlement>,
    ) -> Result<Vec<Result<Settled, Error>>, Error> {
        let count = settlements.len();
        let request = v1::SettleRequest {
            namespace: namespace_out(namespace)?.as_ref().to_owned(),
            settlements: settlements.into_iter().map(settlement_out).collect(),
        };
        let response = call!(self, timers.settle, request)?;
        if response.results.len() != count {
            let answered = response.results.len();
            return Err(Error::answer(format!("{answered} results for {count} settlements")));
        }
        Ok(response.results.into_iter().map(settled_in).collect())
    }
}
