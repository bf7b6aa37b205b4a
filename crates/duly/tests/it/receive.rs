//! `duly receive`: prints deliveries and checks their signatures.

use std::{fs, time::Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::harness::{DEADLINE, Process, Server, run, text};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

#[test]
fn a_delivery_is_printed_with_lateness_attempt_and_payload() {
    let server = Server::start();
    let mut receiver = Process::start(&["receive", "--listen", "127.0.0.1:0"]);
    let (url, _) = receiver.address();
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
fn signatures_are_checked_with_the_secret_and_either_of_two_is_enough() {
    let server = Server::start();
    let start = |secret: &str| {
        // The binary knows one secret, or two separated by a comma.
        let args = ["receive", "--listen", "127.0.0.1:0", "--secret", secret];
        let mut receiver = Process::start(&args);
        let (url, _) = receiver.address();
        (receiver, url)
    };
    let other = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    let (mut right, right_url) = start(SECRET);
    let (mut both, both_url) = start(&format!("{other},{SECRET}"));
    let (mut wrong, wrong_url) = start(other);
    server
        .run(&["namespace", "put", "orders", "--signing-secret", SECRET, "--retry-schedule", "1h"])
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
fn json_is_one_document_for_each_delivery_and_the_status_is_chosen() {
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
    server.run(&["namespace", "put", "orders", "--retry-schedule", "1h"]).ok();
    server
        .run(&["schedule", "orders", "x", "--in", "0", "--payload-text", "y", "--url", &url])
        .ok();
    let delivery: Value = serde_json::from_str(&receiver.line()).expect("a document");
    assert_eq!(delivery["id"], "x");
    assert_eq!(delivery["answered"], 410);
    assert_eq!(delivery["payload_preview"], "y");
    // 410 makes a dead letter at once.
    server.until(&["get", "orders", "x"], |timer| timer["state"] == "dead");
}

#[test]
fn an_address_in_use_is_refused() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("bound").to_string();
    let message = run(&["receive", "--listen", &address]).refused(1);
    assert!(message.contains(&address) && message.contains("--listen"), "{message}");
}

#[test]
fn an_inward_address_is_refused_until_the_configuration_allows_it() {
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

    let (mut process, url) = serve("");
    let call = |url: &str, args: &[&str]| run(&[&["--server", url], args].concat());
    let put = ["namespace", "put", "n", "--retry-schedule", "1h"];
    call(&url, &put).ok();
    call(&url, &["schedule", "n", "x", "--in", "0", "--url", &webhook]).ok();
    let until = Instant::now() + DEADLINE;
    let error = loop {
        let timer = call(&url, &["--output", "json", "get", "n", "x"]).json();
        if let Some(error) = timer["last_error"].as_str() {
            break error.to_owned();
        }
        assert!(Instant::now() < until, "no attempt: {timer}");
    };
    assert!(error.contains("127.0.0.1 is refused"), "{error}");
    process.signal(Signal::TERM);
    process.ended();

    let (_process, url) = serve("allow_networks = [\"127.0.0.1/32\"]");
    call(&url, &["fire", "n", "x"]).ok();
    let line = receiver.line();
    assert!(line.contains("attempt 2  x  delivery"), "{line}");
}
