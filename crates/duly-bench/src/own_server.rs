//! Self-started server of a run: its data folder, and its kill and restart.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, Result};
use duly_checker::history::Crash;
use tempfile::TempDir;

use crate::{
    clock::now_us,
    page_cache,
    process::{self, Server},
    stop::Stop,
    wire::Here,
};

/// Longest time for a server to start and to stop.
const PATIENCE: Duration = Duration::from_secs(120);

/// A self-started server.
pub(crate) struct OwnServer {
    server: Server,
    options: process::Options,
}

/// State of the page cache at a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    Warm,
    Cold,
}

/// Creates a new folder for a run.
pub(crate) fn folder(dir: Option<&Path>) -> Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("duly-bench-");
    match dir {
        Some(dir) => builder
            .tempdir_in(dir)
            .with_context(|| format!("no folder can be made in {}", dir.display())),
        None => builder.tempdir().context("no folder for temporary files can be made"),
    }
}

impl OwnServer {
    pub(crate) async fn start(bin: PathBuf, folder: &Path) -> Result<Self> {
        let options = process::Options {
            bin,
            data: Some(folder.join("data")),
            log: folder.join("server.log"),
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            settings: Vec::new(),
            network: Arc::new(Here),
        };
        let server = start(&options).await?;
        let options = process::Options { listen: server.address(), ..options };
        Ok(Self { server, options })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.server.pid()
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// Kills the server with SIGKILL, starts it again with the same data and address, and waits
    /// until it is ready.
    pub(crate) async fn crash(&mut self, start_with: Start) -> Result<Crash> {
        let killed_us = now_us();
        self.server.kill()?;
        let reaped_us = now_us();
        if start_with == Start::Cold {
            self.options.data.as_deref().map_or(Ok(()), page_cache::empty)?;
        }
        let spawned_us = now_us();
        self.server = start(&self.options).await?;
        Ok(Crash { killed_us, reaped_us, spawned_us, ready_us: now_us() })
    }

    /// Stops the server. If the run is to stop, kills it at once, because its data are not needed.
    pub(crate) async fn end(mut self, stop: &Stop) -> Result<()> {
        if stop.is_wanted() {
            return Ok(self.server.kill()?);
        }
        self.server.stop(PATIENCE).await.map(drop)
    }
}

async fn start(options: &process::Options) -> Result<Server> {
    Server::start(options, PATIENCE).await.map_err(|error| {
        let log = process::tail(&options.log, 5);
        anyhow::anyhow!("a server of its own did not start: {error:#}\n{log}")
    })
}
