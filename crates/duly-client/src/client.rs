//! The client: a handle that is cheap to clone, and the calls on it.

/// Makes a single call; its safety is `Repeatable` unless another one is given.
macro_rules! call {
    ($client:expr, $service:ident.$method:ident, $request:expr) => {
        call!($client, $service.$method, $request, Safety::Repeatable)
    };
    ($client:expr, $service:ident.$method:ident, $request:expr, $safety:expr) => {
        call!($client, $service.$method, $request, $safety, Duration::ZERO)
    };
    ($client:expr, $service:ident.$method:ident, $request:expr, $safety:expr, $extra:expr) => {{
        let service = $client.inner.connection.$service();
        let once = |request| {
            let mut service = service.clone();
            async move { service.$method(request).await }
        };
        $client.call($safety, $extra, $request, once).await
    }};
}

/// Makes a call that changes nothing.
macro_rules! read {
    ($client:expr, $service:ident.$method:ident, $request:expr) => {
        call!($client, $service.$method, $request, Safety::Reading)
    };
}

mod many;
mod namespaces;
pub(crate) mod pulling;
mod reading;
mod writing;

use std::{future::Future, sync::Arc, time::Duration};

use duly_core::NamespaceName;
use tokio::time::Instant;
use tonic::{Request, Response, Status};

use crate::{
    batch::Batches,
    connection::Connection,
    error::{Invalid, Result, check_runtime, within},
    retry::{Retries, Safety, repeat},
};

/// Longest time of a call.
pub(crate) const TIMEOUT_MAX: Duration = Duration::from_secs(3_600);

/// A client of one server. Clones share its connection and its batches.
#[derive(Clone, Debug)]
pub struct Client {
    pub(crate) inner: Arc<Inner>,
    pub(crate) timeout: Duration,
    /// `true`: changes are sent in batches.
    pub(crate) is_batched: bool,
}

/// The part that all clones share.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) connection: Connection,
    pub(crate) batches: Arc<Batches>,
    pub(crate) retries: Retries,
}

impl Client {
    /// Returns the same client with another timeout for its calls, 1 ms to 1 h.
    pub fn with_timeout(&self, timeout: Duration) -> Result<Self> {
        within("timeout", timeout, Duration::from_millis(1), TIMEOUT_MAX)?;
        Ok(Self { timeout, ..self.clone() })
    }

    /// Returns the same client without batches: each change of a timer is a call of its own. Its
    /// response has the whole timer, with payload and headers. Concurrent calls may be carried out in
    /// any order.
    #[must_use]
    pub fn unbatched(&self) -> Self {
        Self { is_batched: false, ..self.clone() }
    }

    /// Returns the deadline of a call that begins now: the timeout plus this extra time.
    fn deadline(&self, extra: Duration) -> Result<Instant, Invalid> {
        check_runtime("the call", "made within a Tokio runtime")?;
        Ok(Instant::now() + self.timeout + extra)
    }

    /// Makes a single call, and repeats it as far as that is safe.
    async fn call<Q, A, F>(
        &self,
        safety: Safety,
        extra: Duration,
        request: Q,
        call: impl Fn(Request<Q>) -> F,
    ) -> Result<A>
    where
        Q: Clone,
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let (deadline, limit) = (self.deadline(extra)?, self.timeout + extra);
        let connection = &self.inner.connection;
        repeat(self.inner.retries, safety, deadline, || {
            connection.call(request.clone(), deadline, limit, &call)
        })
        .await
    }
}

/// Checks the name of a namespace, and returns it.
pub(crate) fn namespace_name(name: &str) -> Result<Arc<str>, Invalid> {
    Ok(NamespaceName::new(name)?.as_str().into())
}

/// Checks the namespace name of a call, and returns it. A request that names another one is refused.
fn namespace_of(call: &str, request: &str) -> Result<String, Invalid> {
    check_same("namespace", call, request)?;
    Ok(NamespaceName::new(call)?.as_str().to_owned())
}

/// Refuses a request that names another namespace or timer than its call.
fn check_same(field: &str, call: &str, request: &str) -> Result<(), Invalid> {
    if request.is_empty() || request == call {
        return Ok(());
    }
    Err(Invalid::new(field, request, format!("left out, or {call:?} as in the call")))
}
