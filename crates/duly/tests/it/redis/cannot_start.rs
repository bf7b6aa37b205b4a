//! What keeps a node from starting: one clear message each, and exit code 1.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::TcpListener,
    thread,
};

use duly_redis_testkit::server::{Server, free_port, tell};

use crate::harness::{Process, Ran, duly};

#[track_caller]
fn refused(env: &[(&str, &str)], url: &str) -> String {
    let mut command = duly();
    command.args(["serve", "--listen", "127.0.0.1:0", "--store", url]);
    command.envs(env.iter().copied());
    let message = Ran::from(command.output().expect("duly starts")).refused(1);
    assert!(!message.contains("secret"), "{message}");
    // Warnings of weaker settings come before it.
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
    check("postgres://u:secret@localhost/duly", &["postgres://u:***@localhost"]);
    let nobody = format!("127.0.0.1:{}", free_port());
    let url = format!("redis://u:secret@{nobody}");
    check(
        &url,
        &[&format!("cannot open the store redis://u:***@{nobody}"), "cannot reach", "start it"],
    );
    check("redis://nobody.invalid", &["nobody.invalid:6379", "lookup"]);
}

#[test]
fn rights_that_are_lacking_are_said_with_what_to_do() {
    let server = Server::start(&["--requirepass", "secret"]);
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
fn settings_that_lose_timers_are_refused_unless_they_are_named() {
    let server = Server::start(&["--appendonly", "no"]);
    check(&server.url(), &["appendonly is off", "`no_append_only`", "store.allow"]);
    let start = |allow: &str| {
        let mut command = duly();
        let url = server.url();
        command.args(["serve", "--listen", "127.0.0.1:0", "--store", &url]);
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
fn weaker_settings_are_said_in_the_log() {
    let server = Server::start(&["--appendfsync", "everysec"]);
    let mut node = Process::start(&["serve", "--listen", "127.0.0.1:0", "--store", &server.url()]);
    node.address();
    node.signal(rustix::process::Signal::TERM);
    let (_, stderr) = node.ended();
    assert!(stderr.contains("up to two seconds of changes"), "{stderr}");
}

#[test]
fn another_deployment_than_the_one_that_is_named_is_refused() {
    let server = Server::start(&[]);
    let theirs = "HSET duly:{17q}:deployment format 4 shards 8 name billing";
    assert_eq!(tell(server.port(), theirs), ":3");
    let message = refused(&[("DULY_STORE__DEPLOYMENT", "orders-prod")], &server.url());
    for part in ["holds the deployment \"billing\", not \"orders-prod\"", "store.deployment"] {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn a_deployment_of_another_format_or_another_kind_of_server_is_refused() {
    let server = Server::start(&[]);
    assert_eq!(tell(server.port(), "HSET duly:{17q}:deployment format 99 shards 8 name x"), ":3");
    check(&server.url(), &["format 99", "use the version of Duly that wrote it"]);
    let url = format!("redis-cluster://127.0.0.1:{}", server.port());
    check(&url, &["cluster support disabled", "use redis:// in place"]);
    let bus = free_port().to_string();
    let member = Server::start(&["--cluster-enabled", "yes", "--cluster-port", &bus]);
    check(&member.url(), &["part of a Cluster: use redis-cluster://"]);
    let url = format!("redis-cluster://127.0.0.1:{}", member.port());
    check(&url, &["does not know an owner of every slot", "not whole"]);
}

#[test]
fn servers_that_are_reading_are_waited_for() {
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
    let listen = format!("127.0.0.1:{}", free_port());
    let server = format!("http://{listen}");
    let _node = Process::start(&["serve", "--listen", &listen, "--store", &url]);
    let wanted = format!("{url} is reading what it kept");
    let until = std::time::Instant::now() + crate::harness::DEADLINE;
    loop {
        let said = crate::harness::run(&["--server", &server, "health"]);
        if said.stdout.contains(&wanted) || said.stderr.contains(&wanted) {
            break;
        }
        assert!(std::time::Instant::now() < until, "{said:?}");
    }
}
