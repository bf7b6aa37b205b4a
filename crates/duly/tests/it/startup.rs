//! A signal while a large store opens: the server ends at once, and the store is not damaged.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    path::Path,
    sync::Arc,
};

use duly_core::{
    Millis, NamespaceName, Schedule, TimerId,
    schedule::{IfExists, When},
    shard::ShardId,
};
use duly_redis_testkit::server::free_port;
use duly_store::{
    Command, Namespaces, Operation, Outcome, Timers, command::Answer, namespaces::Put,
};
use duly_store_embedded::{EmbeddedStore, Options, SystemClock, disk::RealDisk};
use rustix::process::Signal;

use crate::harness::{Process, text};

/// Enough timers that opening them takes much longer than the delivery of a signal.
const TIMERS: u64 = 150_000;
const AT_ONCE: u64 = 5_000;

/// Returns the result of an inline store, which is ready at once.
fn now<T>(answer: duly_store::StoreFuture<'_, T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(answer).expect("a healthy store answers")
}

fn fill(data: &Path) {
    let disk = Arc::new(RealDisk::open_or_create(data).expect("a directory"));
    let options = Options { min_free_bytes: Some(0), min_free_percent: 0, ..Options::default() };
    let store = EmbeddedStore::open_inline(disk, options, Arc::new(SystemClock));
    let store = store.expect("a new store opens");
    let namespace = NamespaceName::new("shop").expect("a name");
    now(store.put_namespace(namespace.clone(), Put::IfAbsent(Box::default())));
    for from in (0..TIMERS).step_by(AT_ONCE as usize) {
        let commands = (from..from + AT_ONCE).map(|n| {
            let id = TimerId::new(&format!("t{n}")).expect("an id");
            let when = When::After(Millis::from_secs(1_000_000));
            let schedule = Box::new(Schedule::new(id, when));
            let operation = Operation::Schedule { schedule, if_exists: IfExists::Fail };
            Command { namespace: namespace.clone(), operation, answer: Answer::Brief }
        });
        let outcomes = now(store.apply(ShardId(0), commands.collect()));
        assert!(outcomes.iter().all(|outcome| matches!(outcome, Outcome::Created(_))));
    }
}

/// Returns the response of `/readyz`, once the server listens.
fn readiness(address: SocketAddr) -> String {
    let mut stream = loop {
        match TcpStream::connect(address) {
            Ok(stream) => break stream,
            Err(_) => std::thread::yield_now(),
        }
    };
    let request = format!("GET /readyz HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

#[test]
fn signal_during_startup_stops_at_once_without_damage() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let data = directory.path().join("data");
    fill(&data);
    for signal in [Signal::INT, Signal::TERM] {
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let args = ["serve", "--data", text(&data), "--listen", &address.to_string()];
        let mut server = Process::start(&args);
        let answer = readiness(address);
        assert!(answer.contains("recovering"), "it opens: {answer}");
        server.signal(signal);
        let (status, stderr) = server.ended();
        assert_eq!(status.code(), Some(0), "{stderr}");
        assert!(stderr.contains("stopped by a signal before the store was open"), "{stderr}");
        assert!(!stderr.contains("panicked"), "{stderr}");
    }
    let mut server = Process::start(&["serve", "--data", text(&data), "--listen", "127.0.0.1:0"]);
    let mut opening = server.address().1;
    while !opening.iter().any(|line| line.contains("pending")) {
        opening.push(server.line());
    }
    let opening = opening.join("\n");
    assert!(opening.contains(&format!("{TIMERS} pending")), "{opening}");
}
