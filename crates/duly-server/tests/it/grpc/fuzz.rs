//! Damaged messages: they cause no fault, the connection still works, and a refused call changes
//! nothing.
//!
//! A valid message of every method of the `.proto` files is encoded. Its bytes are flipped, cut off,
//! inserted and repeated; then its frame is damaged. All calls use one connection. `PROPTEST_CASES`
//! makes the test longer.

mod messages;

use std::{cell::RefCell, collections::BTreeMap, ops::Range};

use bytes::Bytes;
use proptest::{
    prelude::*,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tonic::Code;

use self::messages::{Message, messages};
use super::{
    raw::{Raw, framed},
    server::Server,
};

/// Calls before the compared state is of a fresh namespace again.
const CALLS: usize = 10;

/// Damage to bytes. Offsets wrap around.
#[derive(Debug, Clone)]
enum Damage {
    Flip(usize, u8),
    Cut(usize),
    Insert(usize, Vec<u8>),
    Remove(usize, usize),
    /// A range of bytes is repeated once or many times: fields are among them.
    Repeat(usize, usize, usize),
    /// The n-th field of the message is repeated.
    Field(usize),
    /// The n-th field gets the largest number or the oddest text of the same length.
    Fill(usize),
}

/// Damage to a message, and to its frame.
#[derive(Debug, Clone)]
struct Damaged {
    message: Vec<Damage>,
    frame: Option<Damage>,
}

fn damage() -> impl Strategy<Value = Damage> {
    let place = || 0..200_usize;
    let bytes = prop_oneof![
        Just(vec![0xff; 10]),
        Just(vec![0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f]),
        // Nested groups, and nested messages.
        Just(vec![0x0b; 300]),
        Just(vec![0x12, 0x7f]),
        proptest::collection::vec(any::<u8>(), 1..9),
    ];
    prop_oneof![
        5 => (place(), any::<u8>()).prop_map(|(at, byte)| Damage::Flip(at, byte)),
        1 => place().prop_map(Damage::Cut),
        2 => (place(), bytes).prop_map(|(at, bytes)| Damage::Insert(at, bytes)),
        1 => (place(), 1..9_usize).prop_map(|(at, count)| Damage::Remove(at, count)),
        1 => (place(), 1..60_usize, 1..200_usize).prop_map(|(at, count, times)| Damage::Repeat(at, count, times)),
        3 => (0..20_usize).prop_map(Damage::Field),
        5 => (0..20_usize).prop_map(Damage::Fill),
    ]
}

fn damaged() -> impl Strategy<Value = Damaged> {
    let frame = prop_oneof![6 => Just(None), 1 => damage().prop_map(Some)];
    let message = proptest::collection::vec(damage(), 1..3);
    (message, frame).prop_map(|(message, frame)| Damaged { message, frame })
}

fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let end = bytes.iter().take(10).position(|byte| byte & 0x80 == 0)?;
    let value =
        bytes[..=end].iter().rev().fold(0, |value, byte| value << 7 | u64::from(byte & 0x7f));
    Some((value, end + 1))
}

/// Finds the fields of a valid message, and of the bytes in it that look like messages.
fn fields(bytes: &[u8], from: usize, found: &mut Vec<Range<usize>>) -> Option<()> {
    let mut at = 0;
    while at < bytes.len() {
        let (tag, tag_bytes) = varint(&bytes[at..])?;
        let inside = at + tag_bytes;
        let length = match tag & 7 {
            0 => varint(bytes.get(inside..)?)?.1,
            1 => 8,
            2 => {
                let (length, length_bytes) = varint(bytes.get(inside..)?)?;
                let length = usize::try_from(length).ok()?;
                let begin = inside + length_bytes;
                let content = bytes.get(begin..begin.checked_add(length)?)?;
                let known = found.len();
                if fields(content, from + begin, found).is_none() {
                    found.truncate(known);
                }
                length_bytes + length
            }
            5 => 4,
            _ => return None,
        };
        let end = inside + length;
        bytes.get(..end)?;
        found.push(from + at..from + end);
        at = end;
    }
    Some(())
}

fn suffer(bytes: &mut Vec<u8>, damage: &Damage) {
    let length = bytes.len();
    let total = length.max(1);
    let part = |at: usize, count: usize| {
        let at = (at % total).min(length);
        at..(at + count).min(length)
    };
    match damage {
        Damage::Flip(at, byte) => {
            for byte_there in &mut bytes[part(*at, 1)] {
                *byte_there ^= byte;
            }
        }
        Damage::Cut(at) => bytes.truncate(at % total),
        Damage::Insert(at, more) => {
            let at = part(*at, 0);
            bytes.splice(at, more.iter().copied());
        }
        Damage::Remove(at, count) => drop(bytes.drain(part(*at, *count))),
        Damage::Repeat(at, count, times) => {
            let part = part(*at, *count);
            let more = bytes[part.clone()].repeat(*times);
            bytes.splice(part.end..part.end, more);
        }
        Damage::Field(at) | Damage::Fill(at) => {
            let mut found = Vec::new();
            let whole = fields(bytes, 0, &mut found);
            let Some(part) = whole.and_then(|()| found.get(at % found.len().max(1))) else {
                return;
            };
            let field = &mut bytes[part.clone()];
            if matches!(damage, Damage::Field(_)) {
                let more = field.to_vec();
                bytes.splice(part.end..part.end, more);
            } else if field[0] & 7 == 2 {
                field[2..].fill(b'/');
            } else {
                field[1..].fill(0xff);
                field[part.len() - 1] = 0x7f;
            }
        }
    }
}

fn body(message: &Message, damaged: &Damaged) -> Bytes {
    let mut bytes = message.bytes.clone();
    damaged.message.iter().for_each(|damage| suffer(&mut bytes, damage));
    let mut body = framed(&bytes).to_vec();
    damaged.frame.iter().for_each(|damage| suffer(&mut body, damage));
    body.into()
}

/// Returns all namespaces, and the state of one that only calls change: time runs here, so due timers
/// change at any time.
async fn picture(server: &Server, namespace: &str) -> Value {
    let mut lists = Vec::new();
    for state in ["pending", "dead", "finished", "cancelled"] {
        let path = format!("{namespace}/timers?limit=1000&state={state}");
        let mut list = server.http_at("GET", &path, "").await;
        for timer in list["timers"].as_array_mut().into_iter().flatten() {
            if timer["state"] == "due" {
                timer["state"] = "scheduled".into();
            }
        }
        lists.push(list);
    }
    let mut stats = server.http_at("GET", &format!("{namespace}/stats"), "").await;
    let totals = stats["totals"].take();
    let totals =
        ["scheduled", "delivered", "cancelled", "rescheduled", "dead"].map(|it| &totals[it]);
    let counts = ["in_flight", "pending", "pending_bytes", "retained", "dead", "paused"]
        .map(|it| &stats[it]);
    let namespaces = server.http_at("GET", "?limit=1000", "").await;
    json!([namespaces, lists, totals, counts])
}

/// The counts of a run.
#[derive(Debug, Default)]
struct Tally {
    calls: usize,
    /// Calls whose message was changed by the damage.
    damaged: usize,
    codes: BTreeMap<String, usize>,
    methods: BTreeMap<&'static str, usize>,
}

/// Sends one call; returns its code, or an error that describes its fault.
async fn attack(
    server: &Server,
    raw: &mut Raw,
    namespace: &str,
    message: &Message,
    body: Bytes,
) -> Result<Code, String> {
    let what = || format!("{} {body:02x?}", message.path);
    let before = picture(server, namespace).await;
    let status = raw.call(message.path, &[("grpc-timeout", "2S")], body.clone()).await;
    let code = status.code();
    let allowed = [
        Code::Ok,
        Code::InvalidArgument,
        Code::NotFound,
        Code::AlreadyExists,
        Code::FailedPrecondition,
        Code::ResourceExhausted,
        Code::OutOfRange,
        Code::PermissionDenied,
        Code::Unimplemented,
        Code::Aborted,
        Code::DeadlineExceeded,
    ];
    if !allowed.contains(&code) {
        return Err(format!("{}: {status:?}", what()));
    }
    if raw.connection.is_finished() {
        return Err(format!("{}: the connection ended", what()));
    }
    // A call past its deadline may have been carried out, and a stream was until it broke.
    let may_have_changed = [Code::Ok, Code::DeadlineExceeded].contains(&code) || message.is_stream;
    if !may_have_changed {
        let after = picture(server, namespace).await;
        if after != before {
            let text = format!("was refused and changed something: {status:?}\n{before}\n{after}");
            return Err(format!("{} {text}", what()));
        }
    }
    Ok(code)
}

/// Creates a paused namespace with a timer that is scheduled, one that is dead, and one that is
/// finished.
async fn fill(server: &Server, namespace: &str) {
    for (id, verdict) in
        [("dead", Some(r#""dead":{"reason":"x"}"#)), ("done", Some(r#""ack":{}"#)), ("t", None)]
    {
        let delay = if verdict.is_some() { "0s" } else { "1h" };
        let schedule = format!(r#"{{"id":"{id}","delay":"{delay}","tags":["red"],"payload":1}}"#);
        let made = server.http_at("POST", &format!("{namespace}/timers"), &schedule).await;
        assert_eq!(made["id"], id, "{made}");
        let Some(verdict) = verdict else { continue };
        let lease = format!("{namespace}/lease");
        let leased = server.http_at("POST", &lease, r#"{"max":1,"wait":"30s"}"#).await;
        let token = leased["firings"][0]["token"].as_str().expect("it is due").to_owned();
        let settle = format!(r#"{{"settlements":[{{"token":"{token}",{verdict}}}]}}"#);
        let settled = server.http_at("POST", &format!("{namespace}/settle"), &settle).await;
        assert_eq!(settled["results"][0]["outcome"], "ok", "{settled}");
    }
    // A timer that damage makes due is not delivered, and does not change by an attempt.
    let paused = server.http_at("POST", &format!("{namespace}/pause"), "").await;
    assert_eq!(paused["paused"], true, "{paused}");
}

#[test]
fn damaged_messages_cause_no_fault_and_no_hidden_change() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let seed: u64 =
        std::env::var("PROPTEST_RNG_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    // Each case starts with its own namespace, and its calls use sockets.
    let cases = (Config::default().cases / 4).clamp(1, 900);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let random = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(config, random);
    let server = runtime.block_on(Server::start());
    let raw = RefCell::new(runtime.block_on(Raw::connect(&server)));
    let tally = RefCell::new(Tally::default());
    let number = RefCell::new(0);
    let one = (0..messages("n").len(), damaged());
    let many = proptest::collection::vec(one, 1..CALLS);
    let ran = runner.run(&many, |sequence| {
        let namespace = format!("n{:04}", number.replace_with(|number| *number + 1));
        let messages = messages(&namespace);
        let raw = &mut *raw.borrow_mut();
        runtime.block_on(async {
            fill(&server, &namespace).await;
            for (row, damaged) in &sequence {
                let message = &messages[*row];
                let body = body(message, damaged);
                let is_damaged = body != framed(&message.bytes);
                let code = attack(&server, raw, &namespace, message, body).await;
                let code = code.map_err(TestCaseError::fail)?;
                let mut tally = tally.borrow_mut();
                tally.calls += 1;
                tally.damaged += usize::from(is_damaged);
                *tally.codes.entry(format!("{code:?}")).or_default() += 1;
                *tally.methods.entry(message.path).or_default() += 1;
            }
            Ok(())
        })
    });
    if let Err(error) = ran {
        panic!("seed {seed} (PROPTEST_RNG_SEED repeats it): {error}");
    }
    let tally = tally.into_inner();
    println!(
        "grpc fuzz: {} calls of {} methods over one connection, {} damaged; answers {:?}; none of \
         those refused changed anything (streams are not compared)",
        tally.calls,
        tally.methods.len(),
        tally.damaged,
        tally.codes
    );
    let connection: &JoinHandle<_> = &raw.borrow().connection;
    assert!(!connection.is_finished(), "the connection serves on");
    assert!(cases < 64 || tally.methods.len() == messages::methods().len(), "{tally:?}");
}

#[tokio::test]
async fn undamaged_messages_are_accepted() {
    let server = Server::start().await;
    let mut raw = Raw::connect(&server).await;
    let count = messages("n").len();
    for row in 0..count {
        let namespace = format!("n{row}");
        fill(&server, &namespace).await;
        let message = &messages(&namespace)[row];
        let body = framed(&message.bytes);
        let code = attack(&server, &mut raw, &namespace, message, body).await.unwrap();
        assert_eq!(code, Code::Ok, "{}", message.path);
    }
}

#[tokio::test]
async fn largest_field_values_cause_no_fault_and_no_hidden_change() {
    let server = Server::start().await;
    let mut raw = Raw::connect(&server).await;
    let mut refused = 0;
    for row in 0..messages("n").len() {
        let namespace = format!("n{row}");
        fill(&server, &namespace).await;
        let message = &messages(&namespace)[row];
        let mut found = Vec::new();
        fields(&message.bytes, 0, &mut found).expect("it is whole");
        for at in 0..found.len() {
            let damaged = Damaged { message: vec![Damage::Fill(at)], frame: None };
            let body = body(message, &damaged);
            let code = attack(&server, &mut raw, &namespace, message, body).await.unwrap();
            refused += usize::from(code != Code::Ok);
        }
    }
    assert!(refused > 50, "{refused}");
}
