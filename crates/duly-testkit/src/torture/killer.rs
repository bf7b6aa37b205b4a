//! Kills the server with -9 at random moments, also while it starts, and starts it again.

use std::time::Duration;

use anyhow::{Result, bail};
use rand::Rng;
use tokio::sync::watch;
use tokio::time::Instant;

use super::world::{Up, World};
use crate::clock::now_us;
use crate::history::Crash;
use crate::process::{Options, Server};

/// How often it looks whether the server ended by itself.
const WATCH: Duration = Duration::from_millis(100);

/// How to kill.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    pub(super) kills_per_minute: f64,
    pub(super) lasting: Duration,
    pub(super) patience: Duration,
}

/// Why the load ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// Its time was over, or the history is full.
    InTime,
    /// Somebody pressed Ctrl-C.
    Interrupted,
}

/// Kills until the load is over; answers the living server.
pub(super) async fn run(
    world: &World,
    options: &Options,
    mut server: Server,
    plan: &Plan,
) -> Result<(Server, Ended)> {
    let interrupted = interrupted();
    let mut rng = world.rng(999);
    let end = Instant::now() + plan.lasting;
    loop {
        let mean_s = 60.0 / plan.kills_per_minute.max(1e-6);
        let wait_s = (-(1.0 - rng.random::<f64>()).ln() * mean_s).min(1e6);
        let next = Instant::now() + Duration::from_secs_f64(wait_s);
        match watch(world, &mut server, &interrupted, next.min(end)).await? {
            Some(ended) => return Ok((server, ended)),
            None if next >= end => return Ok((server, Ended::InTime)),
            None => {}
        }
        world.set_up(Up::No);
        let killed_us = now_us();
        server.kill()?;
        let mut crash = Crash { killed_us, reaped_us: now_us(), spawned_us: 0, ready_us: 0 };
        while rng.random_bool(0.2) {
            crash.spawned_us = now_us();
            let starting = Server::spawn(options)?;
            tokio::time::sleep(Duration::from_millis(rng.random_range(0..250))).await;
            crash.ready_us = now_us();
            starting.kill()?;
            world.recorder.crash(crash);
            crash.killed_us = crash.ready_us;
            crash.reaped_us = now_us();
        }
        crash.spawned_us = now_us();
        server = Server::start(options, plan.patience).await?;
        crash.ready_us = now_us();
        world.recorder.crash(crash);
        world.set_up(Up::Yes);
    }
}

/// Waits until `until`; ends sooner with a reason, or an error when the server died by itself.
async fn watch(
    world: &World,
    server: &mut Server,
    interrupted: &watch::Receiver<bool>,
    until: Instant,
) -> Result<Option<Ended>> {
    loop {
        if server.has_ended()? {
            bail!("the server ended by itself");
        }
        if *interrupted.borrow() {
            return Ok(Some(Ended::Interrupted));
        }
        if world.recorder.is_full() {
            return Ok(Some(Ended::InTime));
        }
        let now = Instant::now();
        if now >= until {
            return Ok(None);
        }
        tokio::time::sleep_until(until.min(now + WATCH)).await;
    }
}

/// Becomes true at the first Ctrl-C, also when that comes while the server is being restarted.
fn interrupted() -> watch::Receiver<bool> {
    let (sender, receiver) = watch::channel(false);
    tokio::spawn(async move {
        let pressed = tokio::signal::ctrl_c().await.is_ok();
        sender.send_replace(pressed);
    });
    receiver
}
