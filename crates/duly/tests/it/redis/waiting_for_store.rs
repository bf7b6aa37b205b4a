//! A node waits for a store that may come back by itself. It is alive and not ready, reports the reason,
//! and stops at once on a signal.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::TcpListener,
    thread,
    time::{Duration, Instant},
};

use duly_redis_testkit::{
    cluster::Cluster,
    server::{Server, free_port, tell},
};
use rustix::process::Signal;

use super::fault::{SILENCE, signal};
use crate::harness::{self as node, DEADLINE, Process, duly, file_of, program, run, text};

/// Longest time from a signal to the end of a waiting node.
const STOPS_WITHIN: Duration = Duration::from_secs(5);

/// A node that waits for its store.
struct Waiting {
    process: Process,
    url: String,
}

impl Waiting {
    fn start(store: &str, env: &[(&str, &str)]) -> Self {
        let listen = format!("127.0.0.1:{}", free_port());
        let mut command = duly();
        command.args(["serve", "--listen", &listen, "--store", store]);
        command.envs(env.iter().copied());
        Self { process: Process::of(command), url: format!("http://{listen}") }
    }

    /// Waits until the reasons of `/readyz` contain all of these, and returns the reasons; until then the node is alive.
    #[track_caller]
    fn says(&self, parts: &[&str]) -> String {
        let until = Instant::now() + DEADLINE;
        loop {
            let ran = run(&["--server", &self.url, "--output", "json", "health"]);
            let said = format!("{}{}", ran.stdout, ran.stderr);
            if parts.iter().all(|part| said.contains(part)) {
                assert!(said.contains("recovering"), "{said}");
                assert!(!said.contains("secret"), "{said}");
                return said;
            }
            assert!(Instant::now() < until, "it lacks one of {parts:?}: {said}");
        }
    }

    /// Waits until the node is ready.
    fn is_ready(&self) {
        run(&["--server", &self.url, "health", "--wait", "60s"]).ok();
    }

    /// Stops the node with this signal; returns its log.
    #[track_caller]
    fn stop(mut self, signal: Signal) -> String {
        let told = Instant::now();
        self.process.signal(signal);
        let (status, stderr) = self.process.ended();
        assert_eq!(status.code(), Some(0), "{stderr}");
        assert!(told.elapsed() < STOPS_WITHIN, "it took {:?}", told.elapsed());
        stderr
    }
}

#[test]
fn node_waits_for_a_missing_store_with_a_reason() {
    let mut server = Server::start(&[]);
    server.kill();
    let node = Waiting::start(&server.url(), &[]);
    let reason = format!("cannot reach Redis at 127.0.0.1:{}", server.port());
    node.says(&[&reason, "start it, or correct --store"]);
    let mut curl = program("curl");
    let alive = curl.args(["-s", &format!("{}/healthz", node.url)]).output().expect("curl runs");
    assert!(String::from_utf8_lossy(&alive.stdout).contains("alive"), "{alive:?}");
    let refused = run(&["--server", &node.url, "schedule", "n", "t", "--in", "1h"]).refused(1);
    assert!(refused.contains("the server is starting"), "{refused}");
    server.start_again();
    node.is_ready();
    run(&["--server", &node.url, "schedule", "n", "t", "--in", "1h"]).ok();
    let logged = node.stop(Signal::TERM);
    for part in ["store not opened, will retry", &reason, "retry_in=1s", "store opened"] {
        assert!(logged.contains(part), "the log lacks {part}: {logged}");
    }
}

#[test]
fn a_node_that_waits_stops_at_once() {
    for signal in [Signal::TERM, Signal::INT] {
        let url = format!("redis://u:secret@127.0.0.1:{}", free_port());
        let node = Waiting::start(&url, &[]);
        node.says(&["cannot reach Redis", "redis://u:***@127.0.0.1"]);
        let logged = node.stop(signal);
        assert!(logged.contains("stopped by a signal before the store was open"), "{logged}");
        assert!(!logged.contains("secret"), "{logged}");
    }
    Waiting::start("redis://nobody.invalid", &[]).says(&["nobody.invalid:6379"]);
}

#[test]
fn a_node_waits_for_replicas_and_for_a_whole_cluster() {
    let server = Server::start(&[]);
    let node = Waiting::start(&server.url(), &[("DULY_STORE__MIN_REPLICAS", "1")]);
    node.says(&["0 of the 1 replicas", "start its replicas"]);
    let _replica = Server::start(&["--replicaof", "127.0.0.1", &server.port().to_string()]);
    node.is_ready();
    node.stop(Signal::TERM);
    let bus = free_port().to_string();
    let member = Server::start(&["--cluster-enabled", "yes", "--cluster-port", &bus]);
    let url = format!("redis-cluster://127.0.0.1:{}", member.port());
    let node = Waiting::start(&url, &[("DULY_STORE__ALLOW", "no_replicas")]);
    node.says(&["does not know an owner of every slot", "not whole"]);
    assert_eq!(tell(member.port(), "CLUSTER ADDSLOTSRANGE 0 16383"), "+OK");
    node.is_ready();
    node.stop(Signal::TERM);
}

#[test]
fn a_start_names_masters_shards_and_remedies() {
    let mut cluster = Cluster::start(3, 0);
    drop(node::Server::on_store_with(&cluster.url(), &SILENCE));
    let empty = &mut cluster.masters[0];
    empty.kill();
    empty.lose_data();
    empty.start_again();
    cluster.wait_until_whole();
    for server in cluster.all() {
        assert_eq!(tell(server.port(), "CONFIG SET cluster-require-full-coverage no"), "+OK");
    }
    signal(&cluster.masters[1], Signal::STOP);
    // Two of three coordinator shards: the keys of callers cannot be read.
    let node = Waiting::start(&cluster.url(), &[SILENCE[0], ("DULY_STORE__ALLOW", "no_replicas")]);
    let hung = format!("master 127.0.0.1:{} does not reply", cluster.masters[1].port());
    let remedies =
        ["restore the server from a backup", "`duly store repair --shard 0,", "start it"];
    let causes = ["a majority of the coordinator shards 0,", "shard 0,1,", "no marker", &hung];
    let said = node.says(&[&causes[..], &remedies, &["`--config FILE`"]].concat());
    let shards = said.split("--shard ").nth(1).and_then(|rest| rest.split('`').next());
    let config =
        file_of(&format!("[store]\nurl = \"{}\"\nallow = [\"no_replicas\"]\n", cluster.url()));
    let shards = shards.expect("shards");
    let repair = ["store", "repair", "--config", text(config.path()), "--shard", shards];
    let repaired = run(&repair);
    for part in [&hung, "cannot be asked now", "keys"] {
        assert!(repaired.stderr.contains(part), "{part}: {}", repaired.stderr);
    }
    let lines = repaired.ok();
    assert_eq!(lines.matches("restored").count(), shards.split(',').count(), "{lines}");
    node.is_ready();
    signal(&cluster.masters[1], Signal::CONT);
    let logged = node.stop(Signal::TERM);
    assert!(logged.contains(&hung) && logged.contains("its master cannot be used yet"), "{logged}");
}

#[test]
fn wait_ends_on_an_error_for_the_operator() {
    let mut server = Server::start(&["--requirepass", "secret"]);
    server.kill();
    let mut node = Waiting::start(&server.url(), &[]);
    node.says(&["cannot reach Redis"]);
    server.start_again();
    let (status, stderr) = node.process.ended();
    assert_eq!(status.code(), Some(1), "{stderr}");
    let last = stderr.lines().last().unwrap_or_default();
    assert!(last.starts_with("error: ") && last.contains("NOAUTH"), "{stderr}");
}

#[test]
fn loading_servers_are_waited_for() {
    let loading = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("redis://{}", loading.local_addr().expect("bound"));
    thread::spawn(move || {
        for stream in loading.incoming().map_while(Result::ok) {
            thread::spawn(move || {
                let mut answers = stream.try_clone().expect("a second handle");
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    // Each command begins with the number of its words.
                    let says = b"-LOADING Redis is loading the dataset in memory\r\n";
                    if line.starts_with('*') && answers.write_all(says).is_err() {
                        break;
                    }
                }
            });
        }
    });
    Waiting::start(&url, &[]).says(&["is not ready", "loading the dataset"]);
}
