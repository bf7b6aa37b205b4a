//! Calls that look at timers and at the service.

use std::{collections::VecDeque, time::Duration};

use duly_proto::v1;
use futures::stream;

use super::{Client, namespace_out};
use crate::{
    cluster::Cluster,
    error::Error,
    list::{Filter, Timers},
    retry::Safety,
    timer::Timer,
    wire::{
        answer::timer_in,
        request::{id_out, list_out},
    },
};

impl Client {
    /// One timer with its payload, its stub, or its latest dead letter.
    pub async fn get(&self, namespace: &str, id: &str) -> Result<Timer, Error> {
        let namespace = namespace_out(namespace)?.as_ref().to_owned();
        let request = v1::GetRequest { namespace, id: id_out(id)? };
        timer_in(call!(self, timers.get, request)?)
    }

    /// Timers with their payloads, in order of (due time, id): a stream that asks for a page when
    /// the one before is used up.
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
    pub fn list(&self, namespace: &str, filter: Filter) -> Timers {
        let first = namespace_out(namespace)
            .and_then(|namespace| list_out(namespace.as_ref().to_owned(), filter));
        let pages = Pages { client: self.clone(), page: VecDeque::new(), next: None };
        let begun = match first {
            Ok(request) => Ok(Pages { next: Some(request), ..pages }),
            Err(invalid) => Err(Error::from(invalid)),
        };
        Timers::new(stream::unfold(Some(begun), |pages| async {
            let mut pages = match pages? {
                Ok(pages) => pages,
                Err(error) => return Some((Err(error), None)),
            };
            match pages.timer().await {
                Ok(Some(timer)) => Some((Ok(timer), Some(Ok(pages)))),
                Ok(None) => None,
                Err(error) => Some((Err(error), None)),
            }
        }))
    }

    async fn page(&self, request: v1::ListRequest) -> Result<v1::ListResponse, Error> {
        call!(self, timers.list, request)
    }

    /// How the service is, and what it holds.
    pub async fn cluster(&self) -> Result<Cluster, Error> {
        let info = call!(self, cluster.get, v1::GetClusterRequest {})?;
        Ok(Cluster {
            version: info.version,
            ready: info.ready,
            reasons: info.reasons,
            pending: info.pending,
            overdue: info.overdue,
            in_flight: info.in_flight,
            dead: info.dead,
        })
    }
}

/// A list under way.
struct Pages {
    client: Client,
    page: VecDeque<v1::Timer>,
    /// What asks for the next page; none after the last.
    next: Option<v1::ListRequest>,
}

impl Pages {
    async fn timer(&mut self) -> Result<Option<Timer>, Error> {
        loop {
            if let Some(timer) = self.page.pop_front() {
                return timer_in(timer).map(Some);
            }
            let Some(request) = &self.next else { return Ok(None) };
            let response = self.client.page(request.clone()).await?;
            self.page = response.timers.into();
            // A page may be empty and still not be the last.
            self.next = response.cursor.and_then(|cursor| {
                let request = self.next.take()?;
                Some(v1::ListRequest { cursor: Some(cursor), ..request })
            });
        }
    }
}
