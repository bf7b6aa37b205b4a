//! Conditions that keep a node from starting: each gives one clear message and exit code 1. Conditions
//! that may pass are waited for: see `waiting_for_store.rs`.

use std::io::{BufRead as _, BufReader, Write as _};

use duly_redis_testkit::{
    cluster::Cluster,
    server::{self, free_port, tell},
};

use crate::harness::{Process, Ran, Server, node};

#[track_caller]
fn refused(env: &[(&str, &str)], url: &str) -> String {
    let ran = node(url).envs(env.iter().copied()).output();
    let message = Ran::from(ran.expect("duly starts")).refused(1);
    assert!(!message.contains("secret"), "{message}");
    // Warnings about weaker settings come before it.
    let is_one = message.lines().filter(|line| line.starts_with("error: ")).count() == 1;
    assert!(is_one, "{message}");
    message
}

#[track_caller]
fn check(url: &str, parts: &[&str]) {
    let message = refused(&[], url);
    for part in parts {
        assert!(message.contains(part), "{url} lacks {part}: {message}");
    }
}

#[test]
fn a_wrong_address_is_one_clear_message() {
    check("redis//localhost", &["store.url (flag --store)", "must begin with redis://"]);
    check("redis://u:secret@localhost:x", &["no host and port"]);
    check("postgres://u:secret@localhost/duly", &["postgres://***@localhost"]);
}

#[test]
fn missing_permissions_are_reported_with_a_remedy() {
    let server = server::Server::start(&["--requirepass", "secret"]);
    let at = |login: &str| format!("redis://{login}127.0.0.1:{}", server.port());
    check(&at(""), &["NOAUTH", "store.password_file"]);
    check(&at(":secrets@"), &["authentication failed", "correct the user"]);
    check(&at("nobody:secret@"), &["authentication failed"]);
    let mut redis = std::net::TcpStream::connect(("127.0.0.1", server.port())).expect("there");
    let lines = "AUTH secret\r\nACL SETUSER weak on >secret ~* +ping\r\n";
    redis.write_all(lines.as_bytes()).expect("it reads");
    let mut answers = BufReader::new(redis).lines().map_while(Result::ok);
    assert_eq!((answers.next(), answers.next()), (Some("+OK".into()), Some("+OK".into())));
    check(
        &at("weak:secret@"),
        &["no permissions to run the 'script|load'", "docs/operate/cluster.md"],
    );
}

#[test]
fn lossy_settings_are_refused_unless_allowed() {
    let server = server::Server::start(&["--appendonly", "no"]);
    check(&server.url(), &["appendonly is off", "`no_append_only`", "store.allow"]);
    let start = |allow: &str| {
        let mut command = node(&server.url());
        command.env("DULY_STORE__ALLOW", allow);
        Process::of(command)
    };
    let mut node = start("eviction");
    assert_eq!(node.ended().0.code(), Some(1), "another one is named");
    let mut node = start("eviction,no_append_only");
    node.address();
    node.signal(rustix::process::Signal::TERM);
    let (_, stderr) = node.ended();
    assert!(stderr.contains("appendonly is off"), "it is said all the same: {stderr}");
}

#[test]
fn weaker_settings_are_logged() {
    let server = server::Server::start(&["--appendfsync", "everysec"]);
    let mut node = Process::of(node(&server.url()));
    node.address();
    node.signal(rustix::process::Signal::TERM);
    let (_, stderr) = node.ended();
    assert!(stderr.contains("up to two seconds of changes"), "{stderr}");
}

#[test]
fn other_deployment_is_refused() {
    let server = server::Server::start(&[]);
    let theirs = "HSET duly:{17q}:deployment format 4 shards 8 name billing";
    assert_eq!(tell(server.port(), theirs), ":3");
    let message = refused(&[("DULY_STORE__DEPLOYMENT", "orders-prod")], &server.url());
    for part in ["holds the deployment \"billing\", not \"orders-prod\"", "store.deployment"] {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn other_format_or_server_mode_is_refused() {
    let server = server::Server::start(&[]);
    assert_eq!(tell(server.port(), "HSET duly:{17q}:deployment format 99 shards 8 name x"), ":3");
    check(&server.url(), &["format 99", "use the version of Duly that wrote it"]);
    let url = format!("redis-cluster://127.0.0.1:{}", server.port());
    let message = refused(&[("DULY_STORE__ALLOW", "no_replicas")], &url);
    for part in ["cluster support disabled", "use redis:// in place"] {
        assert!(message.contains(part), "{message}");
    }
    let bus = free_port().to_string();
    let member = server::Server::start(&["--cluster-enabled", "yes", "--cluster-port", &bus]);
    check(&member.url(), &["part of a Cluster: use redis-cluster://"]);
}

#[test]
fn p1_clusters_without_replicas_need_permission() {
    let cluster = Cluster::start(3, 0);
    check(&cluster.url(), &["store.min_replicas", "at least 1 on a Cluster", "no_replicas"]);
    let node = Server::on_store(&cluster.url());
    node.run(&["schedule", "n", "t", "--in", "1h"]).ok();
    let Server { mut process, .. } = node;
    process.signal(rustix::process::Signal::TERM);
    let (status, stderr) = process.ended();
    assert_eq!(status.code(), Some(0), "{stderr}");
    assert!(stderr.contains("a failover loses"), "it is said all the same: {stderr}");
}
