//! A whole server on a free port, which can be stopped and started again.

use std::{net::SocketAddr, time::Duration};

use duly_client::{Client, Failure, Firing, LeaseRequest, Schedule, State};
use duly_server::{
    Running,
    config::{Flag, Source, load},
    start,
};
use tempfile::TempDir;
use tokio::{
    runtime::{Builder, Runtime},
    task::spawn_blocking,
};

/// The namespace of most tests.
pub(super) const NAMESPACE: &str = "a";
pub(super) const HOUR: Duration = Duration::from_secs(3_600);

/// A server under test, on a runtime of its own: shutting down the runtime ends all of its tasks.
pub(super) struct Server {
    running: Option<Running>,
    runtime: Option<Runtime>,
    address: SocketAddr,
    directory: Option<TempDir>,
}

impl Server {
    pub(super) async fn start() -> Self {
        Self::on(tempfile::tempdir().unwrap(), "127.0.0.1:0").await
    }

    async fn on(directory: TempDir, listen: &str) -> Self {
        let flag =
            |flag: &str, key, value: &str| Flag { flag: flag.into(), key, value: value.into() };
        let env = [
            ("DULY_STORE__MIN_FREE_BYTES", "0"),
            ("DULY_STORE__MIN_FREE_PERCENT", "0"),
            ("DULY_STORE__SEGMENT_BYTES", "1MiB"),
        ];
        let config = load(&Source {
            file: None,
            env: env.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect(),
            flags: vec![
                flag("--data", "store.data", directory.path().to_str().unwrap()),
                flag("--listen", "server.listen", listen),
            ],
        })
        .unwrap();
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let running = runtime.spawn(start(config)).await.unwrap().unwrap();
        let address = running.addr();
        let (running, runtime) = (Some(running), Some(runtime));
        Self { running, runtime, address, directory: Some(directory) }
    }

    pub(super) fn addr(&self) -> SocketAddr {
        self.address
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.addr())
    }

    /// Returns a client with a connection of its own.
    pub(super) fn client(&self) -> Client {
        Client::new(self.url()).unwrap()
    }

    /// Stops the server. A restart has the same address and the same timers.
    pub(super) async fn stop(mut self) -> Stopped {
        let (running, runtime) = (self.running.take().unwrap(), self.runtime.take().unwrap());
        runtime.spawn(running.stop()).await.unwrap().unwrap();
        spawn_blocking(move || runtime.shutdown_timeout(Duration::from_secs(60))).await.unwrap();
        Stopped { directory: self.directory.take().unwrap(), listen: self.address.to_string() }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The caller may be on a runtime, where blocking on another one is not allowed.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A stopped server.
pub(super) struct Stopped {
    directory: TempDir,
    listen: String,
}

impl Stopped {
    pub(super) fn url(&self) -> String {
        format!("http://{}", self.listen)
    }

    pub(super) async fn start(self) -> Server {
        Server::on(self.directory, &self.listen).await
    }
}

/// Waits for a future, up to two minutes: a test that takes longer hangs.
pub(super) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(120), future).await.expect("it does not come")
}

/// Waits until a condition holds.
pub(super) async fn until<F: Future<Output = bool>>(mut is_so: impl FnMut() -> F) {
    soon(async {
        while !is_so().await {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// Schedules a timer that is due at once.
pub(super) async fn due(client: &Client, id: &str) {
    client
        .schedule(NAMESPACE, Schedule::after(Duration::ZERO).with_id(id).with_text("x"))
        .await
        .unwrap();
}

/// Schedules a timer that is due in an hour.
pub(super) async fn later(client: &Client, id: &str) {
    client.schedule(NAMESPACE, Schedule::after(HOUR).with_id(id)).await.unwrap();
}

/// Waits until a timer is in this state.
pub(super) async fn until_state(client: &Client, id: &str, state: State) {
    until(|| async { client.get(NAMESPACE, id).await.is_ok_and(|timer| timer.state() == state) })
        .await;
}

/// Leases this many firings.
pub(super) async fn lease(client: &Client, count: usize) -> Vec<Firing> {
    let mut all = Vec::new();
    while all.len() < count {
        let lease = LeaseRequest::up_to(100).with_wait(Duration::from_secs(60));
        all.append(&mut soon(client.lease(NAMESPACE, lease)).await.unwrap().firings);
    }
    assert_eq!(all.len(), count);
    all
}

/// The result of a handler that acknowledges.
pub(super) const DONE: Result<(), Failure> = Ok(());
