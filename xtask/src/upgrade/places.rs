//! Places of timers, and the timers that the tests put into them.

use std::fs;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::folder;
use crate::process;
use crate::server::{Request, Server};

/// Pending timers that [`fill`] leaves.
pub(super) const TIMERS: usize = 100;
/// Longest wait for a server.
const READY_WITHIN: Duration = Duration::from_secs(60);

/// A data directory or a database.
pub(super) trait Place {
    /// Returns its name, for people.
    fn name(&self) -> &'static str;
    /// Returns the arguments of a server that works on it.
    fn arguments(&self) -> Vec<String>;
    /// Returns a digest of its content.
    fn digest(&self) -> Result<String>;
}

/// A data directory.
pub(super) struct Directory(PathBuf);

impl Directory {
    pub(super) fn new() -> Result<Self> {
        let path = process::root().join(folder("data"));
        if path.exists() {
            fs::remove_dir_all(&path)?;
        }
        Ok(Self(path))
    }
}

impl Place for Directory {
    fn name(&self) -> &'static str {
        "data directory"
    }

    fn arguments(&self) -> Vec<String> {
        vec!["--data".to_owned(), self.0.display().to_string()]
    }

    fn digest(&self) -> Result<String> {
        // LOCK has the number of the process that tried last.
        let sums = "find . -type f ! -name LOCK -print0 | sort -z | xargs -0 sha256sum";
        process::output(process::program("sh").args(["-c", sums]).current_dir(&self.0))
    }
}

/// A Redis server on a directory of its own. It is killed when dropped.
pub(super) struct Redis {
    child: Child,
    port: u16,
}

impl Redis {
    pub(super) fn start() -> Result<Self> {
        let folder = process::root().join(folder("redis"));
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut server = process::program("redis-server");
        server.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
        server.args(["--appendonly", "yes", "--appendfsync", "always"]);
        server.args(["--maxmemory-policy", "noeviction", "--enable-debug-command", "local"]);
        server.arg("--dir").arg(&folder).stdout(Stdio::null());
        let redis = Self { child: server.spawn().context("cannot start redis-server")?, port };
        let began = Instant::now();
        while redis.tell(&["PING"]).is_err() {
            ensure!(began.elapsed() < READY_WITHIN, "redis-server does not respond");
            thread::sleep(Duration::from_millis(50));
        }
        Ok(redis)
    }

    fn tell(&self, words: &[&str]) -> Result<String> {
        let port = self.port.to_string();
        process::output(process::program("redis-cli").args(["-e", "-p", &port]).args(words))
    }
}

impl Place for Redis {
    fn name(&self) -> &'static str {
        "Redis database"
    }

    fn arguments(&self) -> Vec<String> {
        vec!["--store".to_owned(), format!("redis://127.0.0.1:{}", self.port)]
    }

    fn digest(&self) -> Result<String> {
        self.tell(&["DEBUG", "DIGEST"])
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Schedules timers, cancels one, and lets one become a dead letter.
pub(super) fn fill(server: &Server) -> Result<()> {
    let post = |path: &str, body: String| post(server, path, &body);
    for number in 0..=TIMERS {
        let body = format!(
            r#"{{"id":"t{number}","delay":"{}s","payload":{{"n":{number}}},"tags":["a"],"headers":{{"x-n":"{number}"}}}}"#,
            3_600 + number
        );
        post("timers", body)?;
    }
    call(server, "DELETE", "timers/t0", "")?;
    post("timers", r#"{"id":"dead","delay":"0s"}"#.to_owned())?;
    let leased = post("lease", r#"{"wait":"20s"}"#.to_owned())?;
    let token = leased["firings"][0]["token"].as_str().context("no firing")?.to_owned();
    let dead = format!(r#"{{"settlements":[{{"token":"{token}","dead":{{"reason":"tested"}}}}]}}"#);
    post("settle", dead)?;
    Ok(())
}

/// Uses a filled place: changes a timer, cancels one, redrives the dead letter and acknowledges it.
pub(super) fn use_it(server: &Server) -> Result<()> {
    call(server, "PATCH", "timers/t1", r#"{"delay":"3h"}"#)?;
    call(server, "DELETE", "timers/t2", "")?;
    let redriven = post(server, "dead/redrive", r#"{"ids":["dead"]}"#)?;
    ensure!(redriven["redriven"] == 1, "the dead letter is gone: {redriven}");
    let leased = post(server, "lease", r#"{"wait":"20s"}"#)?;
    let token = leased["firings"][0]["token"].as_str().context("no firing after the redrive")?;
    let settled = post(
        server,
        "settle",
        &format!(r#"{{"settlements":[{{"token":"{token}","ack":{{}}}}]}}"#),
    )?;
    ensure!(settled["results"][0]["outcome"] == "ok", "not settled: {settled}");
    Ok(())
}

/// Returns id, due time, delivery id and payload of each pending timer.
pub(super) fn timers(server: &Server) -> Result<Vec<[String; 4]>> {
    let list = call(server, "GET", "timers?limit=1000", "")?;
    let listed = list["timers"].as_array().context("no list")?;
    let mut timers = Vec::new();
    for listed in listed {
        let id = listed["id"].as_str().context("a timer has an id")?;
        let timer = call(server, "GET", &format!("timers/{id}"), "")?;
        let text = |key: &str| timer[key].to_string();
        timers.push([id.to_owned(), text("due_at"), text("delivery_id"), text("payload")]);
    }
    timers.sort();
    Ok(timers)
}

/// Waits until a server is ready, and waits for no node of an older build any more.
pub(super) fn until_ready(server: &Server) -> Result<()> {
    let began = Instant::now();
    loop {
        let ready = server.call(&Request { method: "GET", path: "/readyz", body: "" })?;
        if ready.status == 200 && !ready.body.contains("warnings") {
            return Ok(());
        }
        ensure!(began.elapsed() < READY_WITHIN, "not ready: {}", ready.body);
        thread::sleep(Duration::from_millis(50));
    }
}

fn post(server: &Server, path: &str, body: &str) -> Result<Value> {
    call(server, "POST", path, body)
}

fn call(server: &Server, method: &str, path: &str, body: &str) -> Result<Value> {
    let path = format!("/v1/namespaces/orders/{path}");
    let response = server.call(&Request { method, path: &path, body })?;
    if response.status >= 300 {
        bail!("{method} {path}: {} {}", response.status, response.body);
    }
    Ok(serde_json::from_str(&response.body).unwrap_or_default())
}
