//! The receivers of the guide, in each language, with real deliveries: the sink signs, and the program
//! of the guide verifies.
//!
//! A language that is not installed on this machine is named on standard error and skipped, unless
//! `DULY_TEST_TOOLS` names its program: `cargo xtask test` installs them and then requires them.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream as StdTcpStream,
    path::Path,
    process::{Child, Command, Stdio},
    sync::mpsc::{self, Receiver as Lines},
    thread,
};

use duly_core::{DeliveryId, Incarnation, Payload, payload::Form};
use tempfile::TempDir;

use super::*;

const OLD: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const NEW: &str = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
/// Far longer than any step here takes.
const DEADLINE: Duration = Duration::from_secs(60);

/// One of the guide's receivers.
struct Language {
    /// The program that runs it.
    program: &'static str,
    /// The program that must be installed.
    needs: &'static str,
    flags: &'static [&'static str],
    file: &'static str,
}

const PYTHON: Language =
    Language { program: "python3", needs: "python3", flags: &[], file: "receiver.py" };
const NODE: Language =
    Language { program: "node", needs: "node", flags: &[], file: "receiver.mjs" };
/// A source file is compiled when it is run; these flags make that faster.
const JAVA: Language = Language {
    program: "java",
    needs: "javac",
    flags: &["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"],
    file: "Receiver.java",
};

impl Language {
    /// Returns `true` if it can be run; prints a message otherwise.
    fn is_there(&self) -> bool {
        let found = Command::new(self.needs).arg("--version").output();
        let found = found.is_ok_and(|output| output.status.success());
        let wanted = std::env::var("DULY_TEST_TOOLS").unwrap_or_default();
        let wanted = wanted.split_whitespace().any(|tool| tool == self.needs);
        assert!(found || !wanted, "{} is wanted by DULY_TEST_TOOLS and not there", self.needs);
        if !found {
            eprintln!("NOT RUN: {} was not tested, {} is not there", self.file, self.needs);
        }
        found
    }
}

/// A running receiver; killed at the end.
struct Program {
    child: Child,
    lines: Lines<String>,
    to: HttpDestination,
    address: String,
}

impl Program {
    fn start(language: &Language, folder: &Path, secrets: &[&str]) -> Self {
        let receivers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/receivers");
        let mut child = Command::new(language.program)
            .args(language.flags)
            .arg(receivers.join(language.file))
            .args(["0", "memory"])
            .current_dir(folder)
            .env("DULY_WEBHOOK_SECRETS", secrets.join(","))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it is there");
        let stdout = child.stdout.take().expect("stdout is piped");
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let opening = lines.recv_timeout(DEADLINE).expect("it says where it listens");
        let url = opening.split_whitespace().last().expect("an address");
        let address = url.trim_start_matches("http://").trim_end_matches('/').to_owned();
        Self { child, lines, to: HttpDestination::new(url).unwrap(), address }
    }

    /// Returns its output for the delivery that it has just answered: status, delivery id, text.
    fn says(&self) -> String {
        self.lines.recv_timeout(DEADLINE).expect("it prints each delivery")
    }

    /// Creates a signed delivery for it.
    fn envelope(&self, incarnation: u64, secrets: &[&str], body: &str) -> Envelope {
        let mut sent = envelope(self.to.clone(), body.as_bytes());
        Arc::make_mut(&mut sent.spec).payload =
            Some(Payload { form: Form::Json, bytes: body.to_owned().into_bytes().into() });
        sent.delivery_id = DeliveryId::of("guide", "order", Incarnation(incarnation), 0);
        sent.signing_secrets =
            secrets.iter().map(|text| SigningSecret::new(text).unwrap()).collect();
        sent
    }

    /// Sends a delivery that a party in between has changed; returns the status.
    fn send(&self, headers: &[(String, String)], body: &[u8]) -> u16 {
        let mut stream = StdTcpStream::connect(&self.address).unwrap();
        let mut head = format!("POST / HTTP/1.1\r\nhost: {}\r\n", self.address);
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("content-length: {}\r\nconnection: close\r\n\r\n", body.len()));
        stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status line")
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A wall clock that is wrong by this many seconds.
#[derive(Debug)]
struct Wrong(i64);

impl Clock for Wrong {
    fn wall(&self) -> Duration {
        let now = SystemWall.wall();
        let by = Duration::from_secs(self.0.unsigned_abs());
        if self.0 < 0 { now.saturating_sub(by) } else { now + by }
    }
    fn boot(&self) -> Duration {
        Duration::ZERO
    }
}

fn sink_that_is_wrong_by(seconds: i64) -> HttpSink {
    let options = Options { addresses: AddressPolicy::with_loopback(), ..Options::default() };
    HttpSink::new(options, Arc::new(Wrong(seconds))).unwrap()
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

async fn a_signed_delivery_is_done_once(language: &Language) {
    let (folder, sink) = (folder(), sink());
    let mut program = Program::start(language, folder.path(), &[OLD]);
    let first = program.envelope(1, &[OLD], r#"{"order":1}"#);
    let id = first.delivery_id.to_string();
    assert_eq!(sink.deliver(first).await, Delivery::Confirmed);
    assert_eq!(program.says(), format!("200 {id} order 1 closed"));
    let again = program.envelope(1, &[OLD], r#"{"order":1}"#);
    assert_eq!(sink.deliver(again).await, Delivery::Confirmed);
    assert_eq!(program.says(), format!("200 {id} known already"));
    // After a kill it still knows the deliveries and their effects.
    drop(program);
    program = Program::start(language, folder.path(), &[OLD]);
    let after = program.envelope(1, &[OLD], r#"{"order":1}"#);
    assert_eq!(sink.deliver(after).await, Delivery::Confirmed);
    assert_eq!(program.says(), format!("200 {id} known already"));
    let other = program.envelope(2, &[OLD], r#"{"order":1}"#);
    assert_eq!(sink.deliver(other).await, Delivery::Confirmed);
    assert!(program.says().ends_with(" order 1 left alone"));
}

async fn what_was_changed_on_the_way_is_refused(language: &Language) {
    let (folder, web) = (folder(), Web::start().await);
    let program = Program::start(language, folder.path(), &[OLD]);
    let mut sent = program.envelope(1, &[OLD], r#"{"order":1}"#);
    sent.destination = web.destination();
    assert_eq!(web.sink().deliver(sent).await, Delivery::Confirmed);
    let Arrival { body, headers } = web.arrivals().await.remove(0);
    let signed: Vec<_> =
        headers.into_iter().filter(|(name, _)| name.starts_with("webhook-")).collect();
    assert_eq!(signed.len(), 3);
    let with = |name: &str, change: &dyn Fn(&str) -> Option<String>| {
        let mut headers = signed.clone();
        let place = headers.iter().position(|(known, _)| known == name).expect("it was sent");
        match change(&headers[place].1) {
            Some(changed) => headers[place].1 = changed,
            None => drop(headers.remove(place)),
        }
        program.send(&headers, &body)
    };
    assert_eq!(program.send(&signed, br#"{"order":2}"#), 401, "another body");
    assert_eq!(program.send(&signed, &[&body[..], b" "].concat()), 401, "a longer body");
    assert_eq!(program.send(&signed, b""), 401, "no body");
    for name in ["webhook-id", "webhook-timestamp", "webhook-signature"] {
        assert_eq!(with(name, &|_| None), 401, "without {name}");
    }
    assert_eq!(with("webhook-id", &|id| Some(format!("{id}A"))), 401);
    let later = |s: &str| Some((s.parse::<u64>().unwrap() + 1).to_string());
    assert_eq!(with("webhook-timestamp", &later), 401);
    for (what, change) in [
        ("no number", "soon".to_owned()),
        ("a negative number", "-1".to_owned()),
        ("a very long number", "9".repeat(5_000)),
    ] {
        assert_eq!(with("webhook-timestamp", &|_| Some(change.clone())), 401, "{what}");
    }
    for (what, change) in [
        ("a beginning", &(|s: &str| s[..s.len() - 8].to_owned()) as &dyn Fn(&str) -> String),
        ("another version", &|s| s.replace("v1,", "v1a,")),
        ("no version", &|s| s.replace("v1,", "")),
        ("nothing behind the version", &|_| "v1,".to_owned()),
        ("no base64", &|_| "v1,\u{2a}\u{2a}\u{2a} ,, v1 v1,=".to_owned()),
    ] {
        assert_eq!(with("webhook-signature", &|s| Some(change(s))), 401, "{what}");
    }
    assert_eq!(program.send(&signed, &body), 200, "as it was sent");
    let among_others = |s: &str| Some(format!("v1,bm9uZQ== v1a,{s} {s} v2,x"));
    assert_eq!(with("webhook-signature", &among_others), 200, "among others");
}

async fn an_old_delivery_is_refused_and_one_from_the_future(language: &Language) {
    let folder = folder();
    let program = Program::start(language, folder.path(), &[OLD]);
    for (wrong_by_s, taken) in [(-330, false), (-270, true), (330, false), (270, true)] {
        let sent = program.envelope(1, &[OLD], r#"{"order":1}"#);
        let delivery = sink_that_is_wrong_by(wrong_by_s).deliver(sent).await;
        assert_eq!(delivery == Delivery::Confirmed, taken, "{wrong_by_s} s: {delivery:?}");
        assert!(program.says().starts_with(if taken { "200 " } else { "401 " }), "{wrong_by_s} s");
    }
}

async fn either_secret_is_enough_while_one_is_replaced(language: &Language) {
    let (folder, sink) = (folder(), sink());
    for (known, cases) in [
        (&[OLD][..], &[(&[OLD][..], true), (&[NEW, OLD], true), (&[NEW], false)][..]),
        (&[NEW, OLD], &[(&[OLD], true), (&[NEW, OLD], true), (&[NEW], true)]),
        (&[NEW], &[(&[OLD], false), (&[NEW, OLD], true), (&[], false)]),
    ] {
        let program = Program::start(language, folder.path(), known);
        for (signing, taken) in cases {
            let delivery = sink.deliver(program.envelope(1, signing, r#"{"order":1}"#)).await;
            assert_eq!(
                delivery == Delivery::Confirmed,
                *taken,
                "{known:?} {signing:?}: {delivery:?}"
            );
        }
    }
}

async fn answers_mean_what_the_guide_says(language: &Language) {
    let (folder, sink) = (folder(), sink());
    let program = Program::start(language, folder.path(), &[OLD]);
    for never in ["hello", "{}", r#"{"order":"one"}"#, "[1]", "null", ""] {
        let delivery = sink.deliver(program.envelope(1, &[OLD], never)).await;
        let reason =
            "HTTP 410 (rejected for good, not repeated): the payload names no order".to_owned();
        assert_eq!(delivery, Delivery::Rejected { reason }, "{never}");
    }
    let maintenance = folder.path().join("maintenance");
    fs::write(&maintenance, "").unwrap();
    let delivery = sink.deliver(program.envelope(2, &[OLD], r#"{"order":1}"#)).await;
    let (kind, wait) = (AttemptOutcome::Failed, Wait::AtLeast(Millis::from_secs(30)));
    let reason = "HTTP 503 (repeated if the retry policy allows, not before 30s): come back later"
        .to_owned();
    let health = ReceiverHealth::Overloaded;
    assert_eq!(delivery, Delivery::Failed { kind, wait, health, reason });
    fs::remove_file(&maintenance).unwrap();
    let delivery = sink.deliver(program.envelope(2, &[OLD], r#"{"order":1}"#)).await;
    assert_eq!(delivery, Delivery::Confirmed, "what failed was not remembered as done");
    let long = format!(r#"{{"order":1{}}}"#, " ".repeat(2 << 20));
    let delivery = sink.deliver(program.envelope(3, &[OLD], &long)).await;
    assert!(matches!(delivery, Delivery::Failed { .. }), "{delivery:?}");
    let delivery = sink.deliver(program.envelope(4, &[OLD], r#"{"order":2}"#)).await;
    assert_eq!(delivery, Delivery::Confirmed, "and it is still there");
}

/// The tests of each language.
macro_rules! receivers {
    ($($name:ident: $language:expr;)*) => {$(
        mod $name {
            use super::*;
            receivers! { @ $language;
                a_signed_delivery_is_done_once,
                what_was_changed_on_the_way_is_refused,
                an_old_delivery_is_refused_and_one_from_the_future,
                either_secret_is_enough_while_one_is_replaced,
                answers_mean_what_the_guide_says,
            }
        }
    )*};
    (@ $language:expr; $($case:ident,)*) => {$(
        #[tokio::test]
        async fn $case() {
            if $language.is_there() {
                super::$case(&$language).await;
            }
        }
    )*};
}

receivers! {
    python: PYTHON;
    node: NODE;
    java: JAVA;
}
