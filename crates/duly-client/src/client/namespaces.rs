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
    namespace::{Namespace, Settings, Stats},
    retry::Safety,
    wire::{
        namespace::{namespace_in, settings_out},
        required,
        stats::stats_in,
        time::time_out,
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

    /// One namespace.
    pub async fn namespace(&self, name: &str) -> Result<Namespace, Error> {
        let request = v1::GetNamespaceRequest { namespace: checked(name)? };
        namespace_in(call!(self, namespaces.get, request)?)
    }

    /// All namespaces, in order of their names, as a stream.
    pub fn namespaces(&self) -> Listing<Namespace> {
        let client = self.clone();
        let first = v1::ListNamespacesRequest { limit: Some(PAGE), cursor: None };
        let turn = move |request: v1::ListNamespacesRequest| {
            let client = client.clone();
            async move {
                let page = call!(client, namespaces.list, request.clone())?;
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
        Ok(stats_in(call!(self, namespaces.stats, request)?))
    }
}

fn checked(name: &str) -> Result<String, Error> {
    Ok(namespace_out(name)?.as_ref().to_owned())
}
