//! Passwords and TLS: a secret is never shown, and a certificate is checked.

use std::fs;

use duly_redis_testkit::server::{Server, free_port};
use rustix::process::Signal;

use crate::harness::{Process, Ran, duly, node, program, text};

const PASSWORD: &str = "top/s@cret:%";
const ENCODED: &str = "top%2Fs%40cret%3A%25";

fn shows_nothing(said: &str) {
    for part in [PASSWORD, ENCODED, "s@cret", "s%40cret"] {
        assert!(!said.contains(part), "{said}");
    }
}

/// Starts a node and stops it; returns its whole output.
fn all_it_says(env: &[(&str, &str)], url: &str) -> String {
    let mut command = node(url);
    command.env("DULY_LOG__LEVEL", "trace").envs(env.iter().copied());
    let mut node = Process::of(command);
    let (server, mut opening) = node.address();
    while !opening.last().is_some_and(|line| line.contains("duly schedule")) {
        opening.push(node.line());
    }
    let cluster = program("curl").args(["-s", &format!("{server}/v1/cluster")]).output();
    let cluster = cluster.map_or_else(|_| Vec::new(), |output| output.stdout);
    node.signal(Signal::TERM);
    let (status, stderr) = node.ended();
    assert_eq!(status.code(), Some(0), "{stderr}");
    format!("{}\n{stderr}\n{}", opening.join("\n"), String::from_utf8_lossy(&cluster))
}

#[test]
fn a_password_in_the_url_or_in_a_file_is_never_shown() {
    let server = Server::start(&["--requirepass", PASSWORD]);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("password");
    fs::write(&file, format!("{PASSWORD}\n")).expect("written");
    let url = format!("redis://:{ENCODED}@127.0.0.1:{}", server.port());
    let said = all_it_says(&[], &url);
    shows_nothing(&said);
    assert!(said.contains("redis://:***@127.0.0.1"), "{said}");
    let plain = server.url();
    let said = all_it_says(&[("DULY_STORE__PASSWORD_FILE", text(&file))], &plain);
    shows_nothing(&said);
    for action in ["show", "check"] {
        for output in ["table", "json"] {
            let args = ["config", action, "--store", &url, "--output", output];
            let ran = Ran::from(duly().args(args).output().expect("duly starts"));
            shows_nothing(&format!("{ran:?}"));
            ran.ok();
        }
    }
    fs::write(&file, "one\ntwo\n").expect("written");
    let ran = node(&plain).env("DULY_STORE__PASSWORD_FILE", text(&file)).output();
    let message = Ran::from(ran.expect("duly starts")).refused(1);
    assert!(message.contains("store.password_file") && message.contains("one line"), "{message}");
    assert!(!message.contains("two"), "{message}");
}

#[test]
fn redis_tls_certificates_are_checked() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = |name: &str| text(&directory.path().join(name)).to_owned();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    fs::write(path("ca.pem"), made.cert.pem()).expect("written");
    fs::write(path("key.pem"), made.signing_key.serialize_pem()).expect("written");
    let port = free_port().to_string();
    let _server = Server::start(&[
        "--tls-port",
        &port,
        "--tls-cert-file",
        &path("ca.pem"),
        "--tls-key-file",
        &path("key.pem"),
        "--tls-ca-cert-file",
        &path("ca.pem"),
        "--tls-auth-clients",
        "no",
    ]);
    let url = format!("rediss://localhost:{port}");
    let ca = path("ca.pem");
    let authority = [("DULY_STORE__CA_FILE", ca.as_str())];
    let said = all_it_says(&authority, &url);
    assert!(said.contains(&url), "{said}");
    let refused = |env: &[(&str, &str)], url: &str| {
        let ran = node(url).envs(env.iter().copied()).output();
        Ran::from(ran.expect("duly starts")).refused(1)
    };
    let message = refused(&[], &url);
    assert!(message.contains("store.ca_file"), "an authority that nobody trusts: {message}");
    let message = refused(&authority, &format!("rediss://127.0.0.1:{port}"));
    assert!(message.contains("ertificate"), "another name: {message}");
}
