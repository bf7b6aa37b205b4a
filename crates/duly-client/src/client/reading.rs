//! Calls that look at timers and at the service.

use std::time::Duration;

use duly_proto::v1;

use super::{
    Client, namespace_out,
    pages::{Page, listing},
};
use crate::{
    cluster::{Cluster, Node},
    error::Error,
    list::{self, Filter, Listing},
    retry::Safety,
    timer::Timer,
    wire::{
        answer::timer_in,
        request::{id_out, list_out},
        time::time_from,
    },
};

impl Client {
    /// One timer with its payload, its tombstone, or its latest dead letter.
    pub async fn get(&self, namespace: &str, id: &str) -> Result<Timer, Error> {
        let namespace = namespace_out(namespace)?.as_ref().to_owned();
        let request = v1::GetRequest { namespace, id: id_out(id)? };
        timer_in(read!(self, timers.get, request)?)
    }

    /// Timers with their payloads, in order of (due time, id), as a stream. A timer that is not
    /// changed meanwhile comes exactly once.
    ///
    /// ```no_run
    /// # async fn example(client: duly_client::Client) -> Result<(), duly_client::Error> {
    /// let mut timers = client.list("orders", duly_client::Filter::new().tag("customer:7"));
    /// while let Some(timer) = timers.next().await {
    ///     println!("{}", timer?.id);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn list(&self, namespace: &str, filter: Filter) -> Listing<Timer> {
        let first = namespace_out(namespace)
            .and_then(|namespace| list_out(namespace.as_ref().to_owned(), filter));
        let client = self.clone();
        let turn = move |request: v1::ListRequest| {
            let client = client.clone();
            async move {
                let page = read!(client, timers.list, request.clone())?;
                let next = page.cursor.map(|it| v1::ListRequest { cursor: Some(it), ..request });
                Ok(Page { items: page.timers, next })
            }
        };
        listing(first.map_err(Error::from), turn, timer_in)
    }

    /// One page of a list: the first without a cursor, else the one that the page before names. For
    /// whoever shows pages, or goes on later; [`Client::list`] turns them by itself.
    pub async fn list_page(
        &self,
        namespace: &str,
        filter: Filter,
        cursor: Option<&str>,
    ) -> Result<list::Page<Timer>, Error> {
        let request = list_out(namespace_out(namespace)?.as_ref().to_owned(), filter)?;
        let request = v1::ListRequest { cursor: cursor.map(str::to_owned), ..request };
        let page = read!(self, timers.list, request)?;
        let items = page.timers.into_iter().map(timer_in).collect::<Result<_, _>>()?;
        let up_to = page.up_to.and_then(time_from);
        Ok(list::Page { items, cursor: page.cursor, examined: page.examined, up_to })
    }

    /// How the service is, and what it holds.
    pub async fn cluster(&self) -> Result<Cluster, Error> {
        let info = read!(self, cluster.get, v1::GetClusterRequest {})?;
        Ok(Cluster {
            version: info.version,
            ready: info.ready,
            reasons: info.reasons,
            pending: info.pending,
            overdue: info.overdue,
            in_flight: info.in_flight,
            dead: info.dead,
            nodes: info.nodes.into_iter().map(node).collect(),
        })
    }
}

fn node(node: v1::Node) -> Node {
    Node {
        name: node.name,
        member_id: node.member_id,
        this: node.this,
        leaving: node.leaving,
        shards: node.shards,
        heartbeat_age: Duration::from_millis(node.heartbeat_age_ms),
    }
}
