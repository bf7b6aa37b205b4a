//! Errors of opening a store, class by class, on real servers. An error of servers that may come back by
//! themselves is retried (`Retry::After`); all others need an operator (`Retry::Never`).

use std::{fs, time::Duration};

use duly_core::error_code::Retry;
use duly_store_redis::{Check, OpenError, Options, RedisStore};

use crate::{
    calls::{options, until},
    cluster::Cluster,
    server::{Server, free_port, tell},
};

async fn fails(options: &Options) -> OpenError {
    RedisStore::open(options).await.expect_err("the store does not open")
}

#[track_caller]
pub(crate) fn waits(error: &OpenError) {
    assert!(matches!(error.retry(), Retry::After(_)), "{error:?}");
}

#[track_caller]
fn ends(error: &OpenError) {
    assert_eq!(error.retry(), Retry::Never, "{error:?}");
}

/// Starts a server of a Cluster of its own, with additional settings.
fn member(more: &[&str]) -> Server {
    let bus = free_port().to_string();
    Server::start(&[&["--cluster-enabled", "yes", "--cluster-port", &bus], more].concat())
}

fn cluster_url(server: &Server) -> String {
    format!("redis-cluster://127.0.0.1:{}", server.port())
}

#[tokio::test(flavor = "multi_thread")]
async fn unreachable_servers_are_retried() {
    for scheme in ["redis", "redis-cluster"] {
        let nobody = options(&format!("{scheme}://127.0.0.1:{}", free_port()), 1);
        let error = fails(&nobody).await;
        waits(&error);
        assert!(matches!(error, OpenError::Unreachable { .. }), "{error:?}");
    }
    waits(&fails(&options("redis://nobody.invalid", 1)).await);
    let server = Server::start(&[]);
    assert_eq!(tell(server.port(), "CLIENT PAUSE 600000"), "+OK");
    let mut impatient = options(&server.url(), 1);
    impatient.answer_within = Duration::from_millis(200);
    impatient.replication_timeout = Duration::ZERO;
    let error = fails(&impatient).await;
    waits(&error);
    assert!(matches!(error, OpenError::Unreachable { .. }), "{error:?}");
}

/// Starts a server with this number of keys, which takes a millisecond for each to load it.
pub(crate) async fn load_slowly(keys: usize) -> Server {
    let slow = ["--key-load-delay", "1000", "--loading-process-events-interval-bytes", "1024"];
    let server = Server::start(&slow);
    let fill = "redis.call('SET', 'k' .. i, string.rep('x', 100))";
    let filled = tell(server.port(), &format!("EVAL \"for i = 1, {keys} do {fill} end\" 0"));
    assert_eq!(filled, "$-1");
    assert!(tell(server.port(), "BGREWRITEAOF").starts_with("+Background"));
    until("the file is rewritten", async || {
        let info = tell(server.port(), "INFO persistence");
        let is_done =
            info.contains("aof_rewrite_in_progress:0") && info.contains("aof_rewrite_scheduled:0");
        is_done.then_some(())
    })
    .await;
    server
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_loading_is_waited_for() {
    let mut server = load_slowly(3_000).await;
    server.kill();
    let wanted = options(&server.url(), 1);
    let starting = std::thread::spawn(move || {
        server.start_again();
        server
    });
    let error = until("it is loading", async || {
        let error = RedisStore::open(&wanted).await.err()?;
        waits(&error);
        matches!(error, OpenError::NotReady { .. }).then_some(error)
    })
    .await;
    assert!(error.to_string().contains("loading the dataset"), "{error}");
    let _server = starting.join().expect("it starts");
    RedisStore::open(&wanted).await.expect("it is loaded");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_master_without_enough_replicas_is_waited_for() {
    let server = Server::start(&[]);
    let mut wanted = options(&server.url(), 1);
    wanted.min_replicas = 1;
    let error = fails(&wanted).await;
    waits(&error);
    assert!(error.to_string().contains("0 of the 1 replicas"), "{error}");
    let replica = Server::start(&["--replicaof", "127.0.0.1", &server.port().to_string()]);
    let store = until("the replica follows", async || RedisStore::open(&wanted).await.ok()).await;
    drop(store);
    let mut upside_down = options(&replica.url(), 1);
    upside_down.min_replicas = 0;
    let error = fails(&upside_down).await;
    waits(&error);
    assert!(error.to_string().contains("it is a replica"), "{error}");
    drop(replica);
    // A server that refuses changes because it lacks replicas is not ready for a new deployment.
    let server = Server::start(&["--min-replicas-to-write", "1"]);
    let error = fails(&options(&server.url(), 1)).await;
    waits(&error);
    assert!(error.to_string().contains("NOREPLICAS"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn unusable_masters_do_not_block_the_others() {
    let mut cluster = Cluster::start(3, 1);
    let mut wanted = options(&cluster.url(), 8);
    wanted.min_replicas = 1;
    let store = until("all replicas follow", async || RedisStore::open(&wanted).await.ok()).await;
    drop(store);
    cluster.replicas[0].kill();
    RedisStore::open(&wanted).await.expect("two masters have their replicas");
    cluster.replicas[1].kill();
    cluster.replicas[2].kill();
    let error = until("no replica follows", async || RedisStore::open(&wanted).await.err()).await;
    waits(&error);
    assert!(error.to_string().contains("0 of the 1 replicas"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_is_not_whole_is_waited_for() {
    let member = member(&[]);
    let error = fails(&options(&cluster_url(&member), 4)).await;
    waits(&error);
    assert!(error.to_string().contains("does not know an owner of every slot"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn p1_masters_without_replicas_need_permission() {
    let cluster = Cluster::start(3, 0);
    let mut wanted = options(&cluster.url(), 4);
    wanted.allow = vec![Check::NoAppendOnly];
    let error = fails(&wanted).await;
    ends(&error);
    assert!(matches!(error, OpenError::Unsafe { name: "no_replicas", .. }), "{error:?}");
    assert!(error.to_string().contains("a failover loses"), "{error}");
    wanted.allow = vec![Check::NoReplicas];
    RedisStore::open(&wanted).await.expect("it is allowed");
    wanted.allow = Vec::new();
    wanted.min_replicas = 1;
    waits(&fails(&wanted).await);
    // A single server has no failover of its own.
    let alone = Server::start(&[]);
    RedisStore::open(&Options::new(alone.url())).await.expect("nothing is to be allowed");
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_credentials_and_lacking_rights_end_the_start() {
    let server = Server::start(&["--requirepass", "secret"]);
    let also = member(&["--requirepass", "secret"]);
    for place in [server.port(), also.port()] {
        for login in ["", ":wrong@", "nobody:secret@"] {
            let scheme = if place == also.port() { "redis-cluster" } else { "redis" };
            let error = fails(&options(&format!("{scheme}://{login}127.0.0.1:{place}"), 1)).await;
            ends(&error);
            assert!(matches!(error, OpenError::Denied { .. }), "{error:?}");
        }
    }
    let open = Server::start(&[]);
    // The first user may not load scripts, the second may not write the keys.
    for rights in ["~* +ping", "~other:* +@all"] {
        let set = tell(open.port(), &format!("ACL SETUSER weak reset on >secret {rights}"));
        assert_eq!(set, "+OK");
        let url = format!("redis://weak:secret@127.0.0.1:{}", open.port());
        let error = fails(&options(&url, 1)).await;
        ends(&error);
        assert!(matches!(error, OpenError::Denied { .. }), "{error:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn permanent_errors_take_precedence_over_transient_ones() {
    let denies = member(&["--requirepass", "secret"]);
    for hosts in [
        format!("127.0.0.1:{},127.0.0.1:{}", denies.port(), free_port()),
        format!("127.0.0.1:{},127.0.0.1:{}", free_port(), denies.port()),
    ] {
        let error = fails(&options(&format!("redis-cluster://{hosts}"), 1)).await;
        ends(&error);
        assert!(matches!(error, OpenError::Denied { .. }), "{error:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_errors_end_the_start() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = |name: &str| directory.path().join(name);
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    fs::write(path("ca.pem"), made.cert.pem()).expect("written");
    fs::write(path("key.pem"), made.signing_key.serialize_pem()).expect("written");
    fs::write(path("none.pem"), "no certificate\n").expect("written");
    fs::write(path("chain.pem"), made.cert.pem().repeat(10)).expect("written");
    let port = free_port().to_string();
    let text = |name: &str| path(name).to_str().expect("text").to_owned();
    let (certificate, key) = (text("ca.pem"), text("key.pem"));
    let server = Server::start(
        &[
            ["--tls-port", &port],
            ["--tls-cert-file", &certificate],
            ["--tls-key-file", &key],
            ["--tls-ca-cert-file", &certificate],
            ["--tls-auth-clients", "no"],
        ]
        .concat(),
    );
    for (url, authority) in [
        (format!("rediss://localhost:{port}"), None),
        (format!("rediss-cluster://localhost:{port}"), None),
        (format!("rediss://127.0.0.1:{port}"), Some(path("ca.pem"))),
    ] {
        let mut wanted = options(&url, 1);
        wanted.tls_ca = authority;
        let error = fails(&wanted).await;
        ends(&error);
        assert!(matches!(error, OpenError::Tls { .. }), "{url}: {error:?}");
    }
    for name in ["none.pem", "missing.pem"] {
        let mut wanted = options(&format!("rediss://localhost:{port}"), 1);
        wanted.tls_ca = Some(path(name));
        ends(&fails(&wanted).await);
    }
    let mut right = options(&format!("rediss://localhost:{port}"), 1);
    right.tls_ca = Some(path("ca.pem"));
    let store = RedisStore::open(&right).await.expect("the same server with its authority");
    drop(store);
    // A chain beyond the bound.
    assert_eq!(
        tell(server.port(), &format!("CONFIG SET tls-cert-file {}", text("chain.pem"))),
        "+OK"
    );
    let error = fails(&right).await;
    ends(&error);
    assert!(error.to_string().contains("the peer sent 10 certificates"), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_deployments_and_refused_settings_end_the_start() {
    let server = Server::start(&[]);
    let found = |fields: &str| {
        let answer = tell(server.port(), &format!("HSET duly:{{17q}}:deployment {fields}"));
        assert!(answer.starts_with(':'), "{answer}");
    };
    found("format 4 shards 8 name billing");
    let mut wanted = options(&server.url(), 8);
    wanted.deployment = Some("orders".to_owned());
    let error = fails(&wanted).await;
    ends(&error);
    assert!(matches!(error, OpenError::Deployment { .. }), "{error:?}");
    found("format 99");
    let error = fails(&wanted).await;
    ends(&error);
    assert!(matches!(error, OpenError::Format { .. }), "{error:?}");
    let error = fails(&options(&cluster_url(&server), 8)).await;
    ends(&error);
    assert!(matches!(error, OpenError::Refused { .. }), "no Cluster: {error:?}");
    ends(&fails(&options("redis://h/1", 8)).await);
    let careless = Server::start(&["--appendonly", "no"]);
    let error = fails(&options(&careless.url(), 8)).await;
    ends(&error);
    assert!(matches!(error, OpenError::Unsafe { name: "no_append_only", .. }), "{error:?}");
    let version = tell(careless.port(), "INFO server");
    if version.contains("redis_version:7.0.") {
        let mut wanted = options(&careless.url(), 8);
        wanted.on_disk = true;
        let error = fails(&wanted).await;
        ends(&error);
        assert!(matches!(error, OpenError::Version { .. }), "{error:?}");
    }
}
