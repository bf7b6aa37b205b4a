//! The workers of the guide against real servers.

use std::{net::TcpListener, os::unix::process::CommandExt as _, path::PathBuf};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::{
    harness::{Process, Server, program, text},
    tools,
};

fn workers() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/workers")
}

/// Starts the Python worker, with its database in this directory.
fn python(server: &Server) -> Process {
    let mut command = program("python3");
    let database = server.data().with_file_name("worker.db");
    command.arg(workers().join("worker.py")).args(["shop", &server.url, text(&database)]);
    let mut worker = Process::of(command);
    assert!(worker.line().starts_with("working on shop of http://"));
    worker
}

/// A script with all processes it has started; killed as a whole.
struct Group(Process);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw) {
            kill_process_group(group, Signal::KILL).ok();
        }
    }
}

fn schedule(server: &Server, id: &str, payload: &str) {
    server.run(&["schedule", "shop", id, "--in", "0", "--payload", payload]).ok();
}

#[test]
fn python_worker_settles_each_firing_and_stops_on_a_signal() {
    if !tools::are_there("worker.py", &["python3"]) {
        return;
    }
    let server = Server::start();
    let mut worker = python(&server);
    // The worker was started before the namespace existed.
    schedule(&server, "one", r#"{"order":1}"#);
    assert_eq!(worker.line(), "one  attempt 1  order 1 closed");
    schedule(&server, "two", r#"{"order":2}"#);
    assert_eq!(worker.line(), "two  attempt 1  order 2 left alone");
    for (id, payload) in [("text", r#""hello""#), ("list", "[1]"), ("null", "null")] {
        schedule(&server, id, payload);
        let said = worker.line();
        assert_eq!(said, format!("{id}  attempt 1  given up: the payload names no order"));
        server.until(&["get", "shop", id], |timer| timer["state"] == "dead");
    }
    for id in ["one", "two"] {
        server.until(&["get", "shop", id], |timer| timer["state"] == "finished");
    }
    worker.signal(Signal::TERM);
    let (status, stderr) = worker.ended();
    assert!(status.success(), "{status}: {stderr}");
    // It may have printed this before the namespace existed.
    assert!(stderr.lines().all(|line| line.contains("there is no namespace")), "{stderr}");
}

#[test]
fn the_worker_in_python_says_once_what_is_wrong_with_its_calls() {
    if !tools::are_there("worker.py", &["python3"]) {
        return;
    }
    let deaf = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", deaf.local_addr().expect("bound"));
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut command = program("python3");
    command.arg(workers().join("worker.py")).args(["shop", &url]);
    command.arg(directory.path().join("worker.db"));
    let mut worker = Process::of(command);
    for _ in 0..3 {
        drop(deaf.accept().expect("it calls again"));
    }
    worker.signal(Signal::TERM);
    let (_, stderr) = worker.ended();
    let said: Vec<_> = stderr.lines().filter(|line| line.contains("trying again")).collect();
    assert!(said.len() == 1 && said[0].contains(&url), "{stderr}");
}

#[test]
fn killed_python_worker_loses_and_repeats_no_work() {
    if !tools::are_there("worker.py", &["python3"]) {
        return;
    }
    let server = Server::start();
    // A worker that is killed with a firing leaves a lease that ends.
    schedule(&server, "three", r#"{"order":3}"#);
    let left = server.json(&["lease", "shop", "--wait", "20s", "--lease", "1s"]);
    assert_eq!(left["firings"][0]["id"], "three");
    let mut worker = python(&server);
    assert_eq!(worker.line(), "three  attempt 2  order 3 closed");
    server.until(&["get", "shop", "three"], |timer| timer["state"] == "finished");
    // A worker is killed after its work and before it has settled. The firing is delivered again with
    // the same delivery id, and the next worker recognises it.
    worker.signal(Signal::KILL);
    worker.ended();
    schedule(&server, "one", r#"{"order":1}"#);
    let left = server.json(&["lease", "shop", "--wait", "20s", "--lease", "1s"]);
    let delivery = left["firings"][0]["delivery_id"].as_str().expect("a delivery id");
    let database = text(&server.data().with_file_name("worker.db")).to_owned();
    let remember = "import sqlite3, sys; d = sqlite3.connect(sys.argv[1]); \
                    d.execute('INSERT INTO deliveries VALUES (?)', (sys.argv[2],)); d.commit()";
    let mut command = program("python3");
    command.args(["-c", remember, &database, delivery]);
    assert!(command.status().expect("python3 starts").success());
    let mut worker = python(&server);
    assert_eq!(worker.line(), "one  attempt 2  known already");
    server.until(&["get", "shop", "one"], |timer| timer["state"] == "finished");
}

#[test]
fn the_worker_in_the_shell_settles_by_the_exit_code() {
    if !tools::are_there("worker.sh", &["bash", "curl"]) {
        return;
    }
    let server = Server::start();
    server.run(&["namespace", "put", "shop", "--retry-delays", "1h"]).ok();
    let mut command = program("sh");
    command
        .arg(workers().join("worker.sh"))
        .args(["shop", "sh", "-c"])
        .arg("case $(cat) in *good*) ;; *later*) exit 75 ;; *) exit 1 ;; esac")
        .env("DULY_SERVER", &server.url);
    command.process_group(0);
    let mut worker = Group(Process::of(command));
    for (id, payload, state) in [
        ("a", r#"{"token":"good"}"#, "finished"),
        ("b", r#""later""#, "retrying"),
        ("c", r#""bad""#, "dead"),
    ] {
        schedule(&server, id, payload);
        assert_eq!(worker.0.line(), r#"{"results":[{"outcome":"ok"}]}"#);
        server.until(&["get", "shop", id], |timer| timer["state"] == state);
    }
}
