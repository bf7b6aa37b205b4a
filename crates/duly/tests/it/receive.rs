//! `duly receive`: prints deliveries and checks their signatures.

use std::{
    fs,
    io::{Read as _, Write as _},
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use rustix::process::Signal;
use serde_json::Value;

use crate::harness::{DEADLINE, Process, Server, duly, file_of, run, text};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
/// The line at the start of a receiver without a secret.
const UNCHECKED: &str = "signatures are not checked: no --secret-file, and no DULY_WEBHOOK_SECRETS";

#[test]
fn a_delivery_is_printed_with_lateness_attempt_and_payload() {
    let server = Server::start();
    let mut receiver = Process::start(&["receive", "--listen", "127.0.0.1:0"]);
    let (url, _) = receiver.address();
    assert_eq!(receiver.line(), UNCHECKED);
    server
        .run(&[
            "schedule",
            "orders",
            "a b/ü",
            "--in",
            "50ms",
            "--payload",
            r#"{"n":1}"#,
            "--url",
            &url,
        ])
        .ok();
    let line = receiver.line();
    for part in [" ms late  attempt 1  a b/ü  delivery ", "answered 200"] {
        assert!(line.contains(part), "{line}");
    }
    assert!(!line.contains("signature"), "{line}");
    assert_eq!(receiver.line().trim(), r#"{"n":1}"#);
    receiver.signal(Signal::INT);
    assert!(receiver.ended().0.success());
}

#[test]
fn signatures_are_checked_against_either_secret() {
    let server = Server::start();
    let start = |secret: &str| {
        let file = file_of(secret);
        let args = ["receive", "--listen", "127.0.0.1:0", "--secret-file", text(file.path())];
        let mut receiver = Process::start(&args);
        let (url, _) = receiver.address();
        (receiver, url)
    };
    let other = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    let (mut right, right_url) = start(SECRET);
    let (mut both, both_url) = start(&format!("{other}\n{SECRET}\n"));
    let (mut wrong, wrong_url) = start(other);
    server
        .run(&[
            "namespace",
            "put",
            "orders",
            "--signing-secret-file",
            text(file_of(SECRET).path()),
            "--retry-delays",
            "1h",
        ])
        .ok();
    for url in [&right_url, &both_url, &wrong_url] {
        server.run(&["schedule", "orders", "--in", "0", "--payload-text", "x", "--url", url]).ok();
    }
    for line in [right.line(), both.line()] {
        assert!(line.contains("signature valid  answered 200"), "{line}");
    }
    let line = wrong.line();
    assert!(line.contains("SIGNATURE WRONG: none of the 1 signature(s) was made with"), "{line}");
    assert!(line.contains("answered 401"), "{line}");
}

#[test]
fn json_has_one_document_per_delivery_with_the_set_status() {
    let server = Server::start();
    let mut receiver = Process::start(&[
        "receive",
        "--listen",
        "127.0.0.1:0",
        "--status",
        "410",
        "--output",
        "json",
    ]);
    let opening: Value = serde_json::from_str(&receiver.line()).expect("a document");
    let url = opening["receiving_on"].as_str().expect("an address").to_owned();
    assert_eq!(opening["checks_signatures"], false);
    server.run(&["namespace", "put", "orders", "--retry-delays", "1h"]).ok();
    server
        .run(&["schedule", "orders", "x", "--in", "0", "--payload-text", "y", "--url", &url])
        .ok();
    let delivery: Value = serde_json::from_str(&receiver.line()).expect("a document");
    assert_eq!(delivery["id"], "x");
    assert_eq!(delivery["answered"], 410);
    assert_eq!(delivery["payload_preview"], "y");
    // Status 410 makes a dead letter at once.
    server.until(&["get", "orders", "x"], |timer| timer["state"] == "dead");
}

#[test]
fn secrets_come_from_the_option_else_from_either_variable() {
    let opening = |variables: &[(&str, &str)], more: &[&str]| {
        let mut command = duly();
        command.args(["receive", "--listen", "127.0.0.1:0", "--output", "json"]);
        command.args(more).envs(variables.iter().copied());
        Process::of(command)
    };
    let (plural, singular) = ("DULY_WEBHOOK_SECRETS", "DULY_WEBHOOK_SECRET");
    let file = file_of(SECRET);
    let two = format!("{SECRET},whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
    for (variables, more, is_checking) in [
        (&[(plural, two.as_str())][..], &[][..], true),
        (&[(singular, SECRET)], &[], true),
        (&[(plural, ""), (singular, SECRET)], &[], true),
        (&[(plural, SECRET), (singular, "hunter2")], &[], true),
        (&[(plural, "hunter2")], &["--secret-file", text(file.path())], true),
        (&[(plural, "")], &[], false),
    ] {
        let said: Value = serde_json::from_str(&opening(variables, more).line()).expect("JSON");
        assert_eq!(said["checks_signatures"], is_checking, "{variables:?}");
    }
    for name in [plural, singular] {
        let (status, message) = opening(&[(name, "hunter2")], &[]).ended();
        assert_eq!(status.code(), Some(2), "{message}");
        assert!(message.contains(name) && !message.contains("hunter2"), "{message}");
    }
}

#[test]
fn an_address_in_use_is_refused() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("bound").to_string();
    let message = run(&["receive", "--listen", &address]).refused(1);
    assert!(message.contains(&address) && message.contains("--listen"), "{message}");
}

#[test]
fn internal_address_is_refused_unless_allowed() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (file, data) = (directory.path().join("duly.toml"), directory.path().join("data"));
    let serve = |allowed: &str| {
        let delivery = format!("[delivery]\nallow_loopback = \"never\"\n{allowed}\n");
        fs::write(&file, delivery).expect("written");
        let args = ["serve", "--config", text(&file), "--data", text(&data)];
        let mut process = Process::start(&[&args[..], &["--listen", "127.0.0.1:0"]].concat());
        let (url, _) = process.address();
        (process, url)
    };
    let mut receiver = Process::start(&["receive", "--listen", "127.0.0.1:0"]);
    let (webhook, _) = receiver.address();
    assert_eq!(receiver.line(), UNCHECKED);

    let (mut process, url) = serve("");
    let call = |url: &str, args: &[&str]| run(&[&["--server", url], args].concat());
    let put = ["namespace", "put", "n", "--retry-delays", "1h"];
    call(&url, &put).ok();
    // An address is refused by the call; a name is refused when an attempt resolves it.
    let refused = call(&url, &["schedule", "n", "x", "--in", "0", "--url", &webhook]).refused(1);
    assert!(refused.contains("delivery.allow_networks"), "{refused}");
    let named = webhook.replace("127.0.0.1", "localhost");
    call(&url, &["schedule", "n", "x", "--in", "0", "--url", &named]).ok();
    let until = Instant::now() + DEADLINE;
    let error = loop {
        let timer = call(&url, &["--output", "json", "get", "n", "x"]).json();
        if let Some(error) = timer["last_error"].as_str() {
            break error.to_owned();
        }
        assert!(Instant::now() < until, "no attempt: {timer}");
    };
    assert!(error.contains("is refused: it is a loopback address"), "{error}");
    process.signal(Signal::TERM);
    process.ended();

    let (_process, url) = serve("allow_networks = [\"127.0.0.1/32\"]");
    call(&url, &["fire", "n", "x"]).ok();
    let line = receiver.line();
    assert!(line.contains("attempt 2  x  delivery"), "{line}");
}

/// Posts a body with these headers; returns the status.
fn post(url: &str, headers: &[(&str, &str)], body: &str) -> u16 {
    let address = url.trim_start_matches("http://");
    let mut connection = std::net::TcpStream::connect(address).expect("it listens");
    let headers: String =
        headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let head = format!("POST /hook HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
    let request = format!("{head}content-length: {}\r\n{headers}\r\n{body}", body.len());
    connection.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    connection.read_to_string(&mut answer).expect("it answers");
    let status = answer.split_whitespace().nth(1).and_then(|status| status.parse().ok());
    status.unwrap_or_else(|| panic!("no status: {answer}"))
}

#[test]
fn good_bad_missing_and_old_signatures_are_distinguished() {
    let start = |more: &[&str]| {
        let args = [&["receive", "--listen", "127.0.0.1:0"], more].concat();
        let mut receiver = Process::start(&args);
        let (url, _) = receiver.address();
        (receiver, url)
    };
    let file = file_of(SECRET);
    let (mut receiver, url) = start(&["--secret-file", text(file.path())]);
    let webhook = standardwebhooks::Webhook::new(SECRET).expect("a secret");
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    let signed = |at_s: u64, body: &[u8]| {
        let at_s = i64::try_from(at_s).expect("in range");
        (at_s.to_string(), webhook.sign("MFRGG", at_s, body).expect("signed"))
    };
    let mut verdict = |(stamp, signature): (String, String)| {
        let headers = [
            ("webhook-id", "MFRGG"),
            ("webhook-timestamp", stamp.as_str()),
            ("webhook-signature", signature.as_str()),
            ("ce-subject", "order:1"),
            ("duly-attempt", "1"),
        ];
        let status = post(&url, &headers, "pay\u{1b}[2J");
        let line = receiver.line();
        assert_eq!(receiver.line(), "    pay\\u{1b}[2J");
        assert!(line.contains(&format!("answered {status}")), "{line}");
        (status, line)
    };
    let body = "pay\u{1b}[2J".as_bytes();
    let (status, line) = verdict(signed(now_s, body));
    assert!(status == 200 && line.contains("signature valid"), "{line}");
    for (signature, why) in [
        (signed(now_s, b"something else"), "the body or a webhook header was changed"),
        (signed(now_s - 3_600, body), "an old delivery is repeated, or a clock is wrong"),
        (signed(now_s + 3_600, body), "after this machine's clock"),
        ((now_s.to_string(), "v2,x".to_owned()), "no signature of version v1"),
        (("soon".to_owned(), "v1,eA==".to_owned()), "it must be Unix seconds"),
    ] {
        let (status, line) = verdict(signature);
        assert_eq!(status, 401, "{line}");
        assert!(line.contains("SIGNATURE WRONG: ") && line.contains(why), "{why}: {line}");
    }
    assert_eq!(post(&url, &[], "x"), 401);
    let line = receiver.line();
    for part in ["not from Duly", "SIGNATURE WRONG: there is no webhook-signature header"] {
        assert!(line.contains(part), "{line}");
    }
    let (mut receiver, url) = start(&[]);
    assert_eq!(receiver.line(), UNCHECKED);
    assert_eq!(post(&url, &[("webhook-signature", "v1,x")], "x"), 200);
    let line = receiver.line();
    assert!(line.contains("signature not checked: no --secret-file"), "{line}");
}
