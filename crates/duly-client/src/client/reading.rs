//! Calls that read timers and the state of the service.

use std::time::Duration;

use duly_api::{
    ClusterInfo, ListResponse, Timer,
    v1::{self, ListRequest},
};
use duly_core::TimerId;

use super::{Client, namespace_of};
use crate::{
    error::{Error, Result},
    list::{Listing, Page},
    retry::Safety,
};

impl Client {
    /// Returns one timer with its payload, or its tombstone, or its latest dead letter.
    pub async fn get(&self, namespace: &str, id: &str) -> Result<Timer> {
        let namespace = namespace_of(namespace, "")?;
        let id = TimerId::new(id)?.as_str().to_owned();
        read!(self, timers.get, v1::GetRequest { namespace, id })
    }

    /// Returns timers with their payloads, in order of (due time, id), as a stream. A timer that does
    /// not change during the call comes exactly once. The `limit` of the request is the page size, and
    /// so the number of timers in memory at once. If shards are unavailable, the timers of the others come
    /// first, then [`Error::Incomplete`].
    ///
    /// ```no_run
    /// # async fn example(client: duly_client::Client) -> Result<(), duly_client::Error> {
    /// let request = duly_client::ListRequest::default().with_tag("customer:7");
    /// let mut timers = client.list("orders", request);
    /// while let Some(timer) = timers.next().await {
    ///     println!("{}", timer?.id);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn list(&self, namespace: &str, request: ListRequest) -> Listing<Timer> {
        let first = namespace_of(namespace, &request.namespace)
            .map(|namespace| ListRequest { namespace, ..request });
        let client = self.clone();
        let read_page = move |request: ListRequest| {
            let client = client.clone();
            async move {
                let page = read!(client, timers.list, request.clone())?;
                let next = page.cursor.map(|it| ListRequest { cursor: Some(it), ..request });
                let unavailable_shards = page.unavailable_shards;
                Ok(Page { items: page.timers, next, unavailable_shards })
            }
        };
        Listing::of_pages(first.map_err(Error::from), read_page)
    }

    /// Returns one page of a list: the first, or the one at the `cursor` of the request.
    /// [`Client::list`] reads all pages. Its `unavailable_shards` name the shards whose timers are missing.
    pub async fn list_page(
        &self,
        namespace: &str,
        mut request: ListRequest,
    ) -> Result<ListResponse> {
        request.namespace = namespace_of(namespace, &request.namespace)?;
        read!(self, timers.list, request)
    }

    /// Returns the state of the service.
    pub async fn cluster(&self) -> Result<ClusterInfo> {
        read!(self, cluster.get, v1::GetClusterRequest {})
    }

    /// Returns the caller as the server knows it: its key with the permitted actions and namespaces, and its
    /// tenant. Any key may ask.
    pub async fn whoami(&self) -> Result<v1::WhoamiResponse> {
        read!(self, cluster.whoami, v1::WhoamiRequest {})
    }
}
