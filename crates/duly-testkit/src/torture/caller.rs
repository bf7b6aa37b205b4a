//! Caller of the nodes: it has connections to each node and chooses one per call, as a load
//! balancer does. It avoids a node for a while after an error or a 503.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::Rng;
use rand::rngs::SmallRng;

use crate::wire::{Connection, Error, Network, Response};

/// Time for which a node is avoided after a failure.
const AVOIDED_FOR: Duration = Duration::from_secs(1);

/// Address of a node.
#[derive(Debug, Clone)]
pub(super) struct Endpoint {
    pub(super) network: Arc<dyn Network>,
    pub(super) address: SocketAddr,
}

impl Endpoint {
    pub(super) fn connection(&self) -> Connection {
        Connection::within(Arc::clone(&self.network), self.address)
    }
}

/// Connection to one node, and its state.
struct NodeConnection {
    connection: Connection,
    avoided_until: Option<Instant>,
}

/// Sends each call to some node, one call at a time.
pub(super) struct Caller {
    connections: Vec<NodeConnection>,
    timeout: Duration,
    rng: SmallRng,
}

impl Caller {
    pub(super) fn new(nodes: &[Endpoint], timeout: Duration, rng: SmallRng) -> Self {
        let node =
            |node: &Endpoint| NodeConnection { connection: node.connection(), avoided_until: None };
        Self { connections: nodes.iter().map(node).collect(), timeout, rng }
    }

    /// Makes one call, with the time-out of the run.
    pub(super) async fn call(
        &mut self,
        method: &str,
        path: &str,
        body: &[u8],
    ) -> Result<Response, Error> {
        let chosen = self.choose(Instant::now());
        let node = &mut self.connections[chosen];
        let result = node.connection.call(method, path, body, self.timeout).await;
        let failed = result.as_ref().map_or(true, |response| response.status == 503);
        node.avoided_until = failed.then(|| Instant::now() + AVOIDED_FOR);
        result
    }

    /// Returns any node that is not avoided, or any node if all are.
    fn choose(&mut self, now: Instant) -> usize {
        let is_avoided =
            |node: &NodeConnection| node.avoided_until.is_some_and(|until| now < until);
        let good: Vec<usize> = (0..self.connections.len())
            .filter(|number| !is_avoided(&self.connections[*number]))
            .collect();
        match good.as_slice() {
            [] => self.rng.random_range(0..self.connections.len()),
            good => good[self.rng.random_range(0..good.len())],
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;
    use crate::wire::Here;

    #[test]
    fn failed_nodes_are_avoided_unless_all_failed() {
        let address = SocketAddr::from(([127, 0, 0, 1], 1));
        let nodes = vec![Endpoint { network: Arc::new(Here), address }; 3];
        let mut caller = Caller::new(&nodes, AVOIDED_FOR, SmallRng::seed_from_u64(1));
        let now = Instant::now();
        caller.connections[1].avoided_until = Some(now + AVOIDED_FOR);
        let mut chosen: Vec<_> = (0..100).map(|_| caller.choose(now)).collect();
        chosen.sort_unstable();
        chosen.dedup();
        assert_eq!(chosen, [0, 2]);
        let later = now + AVOIDED_FOR;
        assert!((0..100).any(|_| caller.choose(later) == 1));
        for node in &mut caller.connections {
            node.avoided_until = Some(later);
        }
        assert!((0..100).any(|_| caller.choose(now) == 1));
    }
}
