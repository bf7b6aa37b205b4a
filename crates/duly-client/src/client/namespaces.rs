//! Calls on namespaces.

use std::time::{Duration, SystemTime};

use duly_proto::v1;

use super::{
    Client, namespace_out,
    pages::{Page, listing},
};
use crate::{
    error::Error,
    list::Listing,
    namespace::{Forecast, Namespace, Settings, SettingsChange, Stats},
    retry::Safety,
    wire::{
        namespace::{namespace_in, patch_out, settings_out},
        required,
        stats::{forecast_in, stats_in},
        time::{duration_out, time_out},
    },
};

/// Namespaces of one page.
const PAGE: u32 = 1_000;

impl Client {
    /// Writes a namespace's settings, whole, and makes it where it is not there. What is absent
    /// becomes its default; absent signing secrets stay.
    pub async fn put_namespace(&self, name: &str, settings: Settings) -> Result<Namespace, Error> {
        let namespace = checked(name)?;
        let settings = Some(settings_out(settings));
        let request = v1::PutNamespaceRequest { namespace, settings };
        let response = call!(self, namespaces.put, request)?;
        namespace_in(required("namespace", response.namespace)?)
    }

    /// Changes some of a namespace's settings: what is absent stays, what is given is replaced whole.
    pub async fn patch_namespace(
        &self,
        name: &str,
        change: impl Into<SettingsChange>,
    ) -> Result<Namespace, Error> {
        let request = patch_out(checked(name)?, change.into());
        namespace_in(call!(self, namespaces.patch, request)?)
    }

    /// Ends a namespace that has no pending timers and no dead letters: `namespace_not_empty` where
    /// it has.
    pub async fn delete_namespace(&self, name: &str) -> Result<(), Error> {
        self.delete(v1::DeleteNamespaceRequest { namespace: checked(name)?, force: false }).await
    }

    /// Ends a namespace with all its timers, tombstones and dead letters.
    pub async fn delete_namespace_and_timers(&self, name: &str) -> Result<(), Error> {
        self.delete(v1::DeleteNamespaceRequest { namespace: checked(name)?, force: true }).await
    }

    async fn delete(&self, request: v1::DeleteNamespaceRequest) -> Result<(), Error> {
        let v1::DeleteNamespaceResponse {} =
            call!(self, namespaces.delete, request, Safety::Once, Duration::ZERO)?;
        Ok(())
    }

    /// One namespace.
    pub async fn namespace(&self, name: &str) -> Result<Namespace, Error> {
        let request = v1::GetNamespaceRequest { namespace: checked(name)? };
        namespace_in(read!(self, namespaces.get, request)?)
    }

    /// All namespaces, in order of their names, as a stream.
    pub fn namespaces(&self) -> Listing<Namespace> {
        let client = self.clone();
        let first = v1::ListNamespacesRequest { limit: Some(PAGE), cursor: None };
        let turn = move |request: v1::ListNamespacesRequest| {
            let client = client.clone();
            async move {
                let page = read!(client, namespaces.list, request.clone())?;
                let cursor = page.cursor.is_some().then_some(page.cursor);
                let next = cursor.map(|cursor| v1::ListNamespacesRequest { cursor, ..request });
                Ok(Page { items: page.namespaces, next })
            }
        };
        listing(Ok(first), turn, namespace_in)
    }

    /// Stops a namespace's firing. After this no claim is granted; scheduling goes on.
    pub async fn pause(&self, name: &str) -> Result<Namespace, Error> {
        let request = v1::PauseRequest { namespace: checked(name)? };
        namespace_in(call!(self, namespaces.pause, request)?)
    }

    /// Lets a namespace fire again.
    pub async fn resume(&self, name: &str) -> Result<Namespace, Error> {
        let request = v1::ResumeRequest { namespace: checked(name)?, at: None };
        namespace_in(call!(self, namespaces.resume, request)?)
    }

    /// Lets a namespace fire again from a moment on; until then it stays paused.
    pub async fn resume_at(&self, name: &str, at: SystemTime) -> Result<Namespace, Error> {
        let at = Some(time_out("at", at)?);
        let request = v1::ResumeRequest { namespace: checked(name)?, at };
        namespace_in(call!(self, namespaces.resume, request)?)
    }

    /// Counts of a namespace.
    pub async fn stats(&self, name: &str) -> Result<Stats, Error> {
        let request = v1::StatsRequest { namespace: checked(name)? };
        Ok(stats_in(read!(self, namespaces.stats, request)?))
    }

    /// How many pending timers become claimable in each of the next `count` stretches of time: 1 to
    /// 1000 of them, each 1 s to 366 days long.
    pub async fn forecast(
        &self,
        name: &str,
        bucket: Duration,
        count: u32,
    ) -> Result<Forecast, Error> {
        let (bucket, count) = (Some(duration_out(bucket)), Some(count));
        let request = v1::ForecastRequest { namespace: checked(name)?, bucket, count };
        Ok(forecast_in(read!(self, namespaces.forecast, request)?))
    }
}

fn checked(name: &str) -> Result<String, Error> {
    Ok(namespace_out(name)?.as_ref().to_owned())
}
