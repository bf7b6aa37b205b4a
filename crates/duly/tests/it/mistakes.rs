//! Mistakes of new users: each gets an answer with the right cure.

use std::{
    fs,
    process::{Command, Stdio},
};

use crate::harness::{DEADLINE, Process, Ran, Server, duly, receiver, run, text};

fn ran(mut command: Command) -> Ran {
    command.output().expect("duly starts").into()
}

#[test]
fn a_put_that_redirects_timers_needs_replace() {
    let server = Server::start();
    let put = |more: &[&str]| server.run(&[&["namespace", "put", "orders"], more].concat());
    let url = ["--url", "http://127.0.0.1:4000", "--weight", "5"];
    put(&url).ok();
    // Without timers each change is named.
    let changed = put(&["--weight", "5"]);
    assert!(
        changed.stderr.contains("destination.http.url http://127.0.0.1:4000/ → none"),
        "{changed:?}"
    );
    put(&url).ok();
    server.run(&["schedule", "orders", "x", "--in", "1h"]).ok();
    let same = put(&url);
    assert_eq!(same.stderr, "", "{same:?}");
    same.ok();
    for more in [&["--lease", "1m"][..], &["--url", "http://127.0.0.1:5000/"]] {
        for quiet in [&[][..], &["-q"]] {
            let message = put(&[more, quiet].concat()).refused(1);
            let after = if more[0] == "--url" { "http://127.0.0.1:5000/" } else { "pull" };
            let change = format!("destination http://127.0.0.1:4000/ → {after}");
            for part in [&*change, "--replace", "duly namespace set orders", "nothing was changed"]
            {
                assert!(message.contains(part), "{part}: {message}");
            }
        }
    }
    let file = br#"{"fallback":{"destination":{"http":{"url":"http://127.0.0.1:6000/"}}}}"#;
    let args = ["namespace", "put", "orders", "--file", "-"];
    let message = server.run_with_stdin(&args, file).refused(1);
    assert!(message.contains("fallback none → http://127.0.0.1:6000/"), "{message}");
    let settings = server.json(&["namespace", "get", "orders"]);
    assert_eq!(settings["destination"]["http"]["url"], "http://127.0.0.1:4000/");
    assert_eq!(settings["weight"], 5);
    let other = put(&["--url", "http://127.0.0.1:4000/"]);
    assert!(other.stderr.contains("changed: weight 5 → 1"), "{other:?}");
    put(&["--lease", "1m", "--replace"]).ok();
    assert!(server.json(&["namespace", "get", "orders"])["destination"]["pull"].is_object());
    server.run(&["namespace", "set", "orders", "--url", "http://127.0.0.1:4000/"]).ok();
    assert_eq!(server.json(&["namespace", "get", "orders"])["lease"], "1m");
}

#[test]
fn a_put_that_drops_credentials_of_timers_needs_replace() {
    let server = Server::start();
    let put = |more: &[&str]| {
        let url = ["namespace", "put", "orders", "-q", "--url", "http://127.0.0.1:4000"];
        server.run(&[&url, more].concat())
    };
    let all = ["--url-header", "x-api-key:k", "--url-method", "PUT", "--url-timeout", "5s"];
    put(&all).ok();
    server.run(&["schedule", "orders", "x", "--in", "1h"]).ok();
    put(&all).ok();
    for (left_out, change) in [
        (0, "destination.http.headers.x-api-key *** → none"),
        (2, "destination.http.method PUT → POST"),
        (4, "destination.http.timeout 5s → 30s"),
    ] {
        let rest = [&all[..left_out], &all[left_out + 2..]].concat();
        let message = put(&rest).refused(1);
        assert!(message.contains(change) && message.contains("--replace"), "{message}");
    }
    let other = put(&["--replace"]);
    assert!(other.stderr.contains("x-api-key *** → none"), "{other:?}");
    assert_eq!(put(&["--replace"]).stderr, "");
}

#[test]
fn errors_have_no_http_advice() {
    let server = Server::start();
    server.run(&["schedule", "demo", "x", "--in", "1h"]).ok();
    for (args, cure) in [
        (&["get", "nobody", "x"][..], "`duly namespace put nobody`"),
        (&["namespace", "delete", "demo"], "`--force`"),
        (&["dead", "purge", "demo", "--id", "x"], "there is no dead letter \"x\""),
        (&["dead", "purge", "demo", "--id", "y"], "`duly dead list` lists them"),
        (&["key", "get", "abcdefghjk"], "`duly key list`"),
        (&["tenant", "get", "nobody"], "`duly tenant list`"),
    ] {
        let message = server.run(args).refused(1);
        assert!(message.contains(cure), "{args:?}: {message}");
        for http in ["GET", "PUT", "?force", "/v1/"] {
            assert!(!message.contains(http), "{args:?}: {message}");
        }
    }
}

#[test]
fn a_missing_namespace_gets_the_name_that_was_meant() {
    let server = Server::start();
    server.run(&["namespace", "put", "demo"]).ok();
    for args in [&["get", "dmeo", "x"][..], &["list", "dmeo"], &["namespace", "stats", "Demo"]] {
        let message = server.run(args).refused(1);
        assert!(message.contains("did you mean `demo`?"), "{args:?}: {message}");
    }
    let message = server.run(&["get", "orders", "x"]).refused(1);
    assert!(!message.contains("did you mean"), "{message}");
}

#[test]
fn a_variable_that_is_like_a_known_one_gets_a_note() {
    let server = Server::start();
    let with = |args: &[&str], name: &str, value: &str| {
        let mut command = server.command(args);
        command.env(name, value);
        ran(command)
    };
    let said = with(&["health"], "DULY_SERVR", "http://127.0.0.1:1");
    assert_eq!(
        said.stderr,
        "note: the variable DULY_SERVR is not read: did you mean DULY_SERVER?\n"
    );
    for quiet in [&["health", "-q"][..], &["health", "--output", "json"]] {
        assert_eq!(with(quiet, "DULY_SERVR", "http://127.0.0.1:1").stderr, "");
    }
    assert_eq!(with(&["health"], "DULY_PORT", "tcp://10.0.0.1:3859").stderr, "");
    let directory = tempfile::tempdir().expect("a temporary directory");
    let mut command = duly();
    command.args([
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--data",
        text(&directory.path().join("data")),
    ]);
    let mut serving = Process::of({
        command.env("RUST_LOG", "debug").env("DULY_LOG", "debug");
        command
    });
    serving.address();
    serving.signal(rustix::process::Signal::TERM);
    let (_, log) = serving.ended();
    for name in ["RUST_LOG", "DULY_LOG"] {
        let line = log.lines().find(|line| line.contains(name) && line.contains("WARN"));
        assert!(line.is_some_and(|line| line.contains("DULY_LOG__LEVEL")), "{name}: {log}");
    }
}

#[test]
fn a_lease_of_a_namespace_that_pushes_gets_a_note() {
    let server = Server::start();
    server.run(&["namespace", "put", "hooks", "--url", "http://127.0.0.1:4000/"]).ok();
    server.run(&["namespace", "put", "pulled"]).ok();
    for wait in [&[][..], &["--wait", "50ms"]] {
        let said = server.run(&[&["lease", "hooks"], wait].concat());
        assert!(
            said.stderr.starts_with("note: hooks delivers to a webhook: only timers with"),
            "{said:?}"
        );
        assert_eq!(said.ok(), "none\n");
        assert_eq!(server.run(&[&["lease", "pulled"], wait].concat()).stderr, "");
    }
}

#[test]
fn an_id_with_a_space_at_an_end_gets_a_note() {
    let server = Server::start();
    for (id, is_noted) in [(" a", true), ("b ", true), ("c d", false)] {
        let said = server.run(&["schedule", "n", id, "--in", "1h"]);
        assert_eq!(said.stderr.contains("begins or ends with a space"), is_noted, "{said:?}");
    }
}

#[test]
fn the_payload_of_a_file_has_the_type_of_its_name() {
    let (server, (url, heads)) = (Server::start(), receiver());
    let directory = tempfile::tempdir().expect("a temporary directory");
    let schedule = |name: &str, content: &[u8], more: &[&str]| {
        let path = directory.path().join(name);
        fs::write(&path, content).expect("written");
        let args =
            ["schedule", "n", name, "--in", "0", "--url", &url, "--payload-file", text(&path)];
        server.run(&[&args[..], more].concat())
    };
    let octets = ["--header", "content-type: application/octet-stream"];
    for (name, content, more, expected) in [
        ("x.json", &b"\xef\xbb\xbf{\"a\": 1}\n"[..], &[][..], "application/json"),
        ("x.JSON", b"[1]", &[], "application/json"),
        ("x.txt", "gr\u{f6}\u{df}e\n".as_bytes(), &[], "text/plain; charset=utf-8"),
        ("x.bin", b"\x01", &[], "application/octet-stream"),
        ("no-end", b"{}", &[], "application/octet-stream"),
        ("damaged.json", b"{", &octets, "application/octet-stream"),
    ] {
        schedule(name, content, more).ok();
        let head = heads.recv_timeout(DEADLINE).expect("a delivery");
        assert!(head.contains(&format!("\r\ncontent-type: {expected}\r\n")), "{name}: {head}");
    }
    for (name, content) in [("bad.json", &b"{"[..]), ("bad.txt", b"\xff")] {
        let message = schedule(name, content, &[]).refused(1);
        assert!(message.contains(name) && message.contains("--header content-type:"), "{message}");
    }
}

#[test]
fn output_into_a_pipe_is_whole() {
    let server = Server::start();
    let payload = "x".repeat(5_000);
    let tags: Vec<_> = (0..10).map(|n| format!("--tag=tag-number-{n}")).collect();
    let mut args = vec!["schedule", "n", "a", "--in", "0", "--payload-text", &*payload];
    args.extend(tags.iter().map(String::as_str));
    server.run(&args).ok();
    assert!(server.run(&["get", "n", "a"]).ok().contains(&payload));
    assert!(server.run(&["list", "n"]).ok().contains("tag-number-9"));
    assert!(server.run(&["lease", "n", "--wait", "20s"]).ok().contains(&payload));
}

#[test]
fn a_certificate_for_another_name_has_its_own_cure() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = |name: &str| text(&directory.path().join(name)).to_owned();
    let names = ["timers.example".to_owned(), "10.0.0.1".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
    fs::write(path("certificate"), made.cert.pem()).expect("written");
    fs::write(path("key"), made.signing_key.serialize_pem()).expect("written");
    let config = format!(
        "[tls]\ncertificate_file = {:?}\nkey_file = {:?}\n",
        path("certificate"),
        path("key")
    );
    fs::write(path("duly.toml"), config).expect("written");
    let (data, file, authority) = (path("data"), path("duly.toml"), path("certificate"));
    let mut server =
        Process::start(&["serve", "--config", &file, "--data", &data, "--listen", "127.0.0.1:0"]);
    let (url, _) = server.address();
    let message = run(&["--server", &url, "--ca-file", &authority, "health"]).refused(1);
    for part in ["it is for timers.example, 10.0.0.1", "name the server with --server"] {
        assert!(message.contains(part), "{message}");
    }
    assert!(!message.contains("--ca-file"), "{message}");
    let message = run(&["--server", &url, "health"]).refused(1);
    assert!(message.contains("--ca-file"), "an unknown authority: {message}");
}

#[test]
fn a_server_below_its_disk_reserve_says_so_at_the_start() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let data = text(&directory.path().join("data")).to_owned();
    let mut command = duly();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data", &data]);
    command.env("DULY_STORE__MIN_FREE_BYTES", "1TiB").stderr(Stdio::piped());
    let mut serving = Process::of(command);
    serving.address();
    let said = loop {
        let line = serving.line();
        if line.starts_with("warning: ") {
            break line;
        }
    };
    for part in ["bytes free", "store.min_free_bytes", "new timers are refused"] {
        assert!(said.contains(part), "{said}");
    }
    serving.signal(rustix::process::Signal::TERM);
    let (_, log) = serving.ended();
    assert!(log.contains("started, but not ready") && log.contains("in reserve"), "{log}");
}
