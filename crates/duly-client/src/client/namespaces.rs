//! Calls on namespaces.

use std::time::{Duration, SystemTime};

use duly_api::{
    Namespace, NamespaceField, NamespaceForecast, NamespaceSettings, NamespaceStats, ResumeRequest,
    v1,
};

use super::{Client, namespace_of};
use crate::{
    error::{Error, Result},
    list::{Listing, Page},
    retry::Safety,
};

/// Number of namespaces per page.
const PAGE: u32 = 1_000;

impl Client {
    /// Replaces all settings of a namespace, and creates it if it does not exist. An absent setting
    /// becomes its default, but absent signing secrets keep the existing ones.
    pub async fn put_namespace(
        &self,
        name: &str,
        settings: NamespaceSettings,
    ) -> Result<Namespace> {
        let (namespace, settings) = (namespace_of(name, "")?, Some(settings));
        let request = v1::PutNamespaceRequest { namespace, settings };
        let response = call!(self, namespaces.put, request);
        let namespace = response.map_err(of_settings)?.namespace;
        namespace.ok_or_else(|| Error::bad_response("the namespace is missing"))
    }

    /// Changes some settings of a namespace. An absent setting stays. A given setting replaces the old
    /// one as a whole. The settings in `reset` return to their defaults. A change that changes nothing
    /// is refused.
    ///
    /// ```no_run
    /// # use duly_client::{Client, Error, NamespaceField, NamespaceSettings};
    /// # async fn example(client: Client) -> Result<(), Error> {
    /// let heavier = NamespaceSettings { weight: Some(5), ..NamespaceSettings::default() };
    /// client.patch_namespace("orders", heavier, &[NamespaceField::Retry]).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn patch_namespace(
        &self,
        name: &str,
        settings: NamespaceSettings,
        reset: &[NamespaceField],
    ) -> Result<Namespace> {
        let (namespace, settings) = (namespace_of(name, "")?, Some(settings));
        let reset = reset.iter().map(|field| i32::from(*field)).collect();
        let request = v1::PatchNamespaceRequest { namespace, settings, reset };
        call!(self, namespaces.patch, request).map_err(of_settings)
    }

    /// Deletes a namespace that has no pending timers and no dead letters. If it has some, the error is
    /// `namespace_not_empty`.
    pub async fn delete_namespace(&self, name: &str) -> Result<()> {
        self.delete(name, false).await
    }

    /// Deletes a namespace with all its timers, tombstones and dead letters.
    pub async fn delete_namespace_and_timers(&self, name: &str) -> Result<()> {
        self.delete(name, true).await
    }

    async fn delete(&self, name: &str, force: bool) -> Result<()> {
        let request = v1::DeleteNamespaceRequest { namespace: namespace_of(name, "")?, force };
        let v1::DeleteNamespaceResponse {} = call!(self, namespaces.delete, request, Safety::Once)?;
        Ok(())
    }

    /// Returns one namespace.
    pub async fn namespace(&self, name: &str) -> Result<Namespace> {
        read!(self, namespaces.get, v1::GetNamespaceRequest { namespace: namespace_of(name, "")? })
    }

    /// Returns all namespaces, in order of their names, as a stream.
    pub fn namespaces(&self) -> Listing<Namespace> {
        let first = v1::ListNamespacesRequest { limit: Some(PAGE), cursor: None };
        let client = self.clone();
        let read_page = move |request: v1::ListNamespacesRequest| {
            let client = client.clone();
            async move {
                let page = read!(client, namespaces.list, request.clone())?;
                let next =
                    page.cursor.map(|it| v1::ListNamespacesRequest { cursor: Some(it), ..request });
                Ok(Page { items: page.namespaces, next, unavailable_shards: Vec::new() })
            }
        };
        Listing::of_pages(Ok(first), read_page)
    }

    /// Pauses a namespace. After this no claim is granted; schedules are still accepted.
    pub async fn pause(&self, name: &str) -> Result<Namespace> {
        call!(self, namespaces.pause, v1::PauseRequest { namespace: namespace_of(name, "")? })
    }

    /// Resumes a namespace.
    pub async fn resume(&self, name: &str) -> Result<Namespace> {
        let namespace = namespace_of(name, "")?;
        call!(self, namespaces.resume, ResumeRequest { namespace, at: None })
    }

    /// Resumes a namespace at a time; until then it stays paused.
    pub async fn resume_at(&self, name: &str, at: SystemTime) -> Result<Namespace> {
        let namespace = namespace_of(name, "")?;
        call!(self, namespaces.resume, ResumeRequest { namespace, at: Some(at.into()) })
    }

    /// Returns the counts of a namespace.
    pub async fn stats(&self, name: &str) -> Result<NamespaceStats> {
        read!(self, namespaces.stats, v1::StatsRequest { namespace: namespace_of(name, "")? })
    }

    /// Returns the number of pending timers that become claimable in each of the next `count` buckets of
    /// time: 1 to 1000 buckets, each 1 s to 366 days long.
    pub async fn forecast(
        &self,
        name: &str,
        bucket: Duration,
        count: u32,
    ) -> Result<NamespaceForecast> {
        let (bucket, count) = (Some(bucket.into()), Some(count));
        let request = v1::ForecastRequest { namespace: namespace_of(name, "")?, bucket, count };
        read!(self, namespaces.forecast, request)
    }
}

/// Names the fields of settings as their caller wrote them, and not as the request has them.
fn of_settings(error: Error) -> Error {
    error.without_path("settings.")
}
