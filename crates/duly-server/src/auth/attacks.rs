//! Attacks on authorization: random keys against every operation, and keys that rotate all the time.

use std::{sync::atomic::AtomicU64, thread};

use duly_core::access::{KEY_SECRETS_MAX, KeySecret};
use http::HeaderValue;
use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};

use super::{
    tests::{Verdict, grpc_verdict, http_verdict, key, presented, records},
    *,
};
use crate::{operations::OPERATIONS, tests::TestServer};

/// Names of namespaces, and patterns of keys.
const NAMES: [&str; 5] = ["a", "ab", "b", "b-1", "zz"];
const PATTERNS: [&str; 6] = ["*", "a", "a*", "b", "b-*", "c*"];

/// A call: method and path of HTTP, or path of gRPC.
#[derive(Debug, Clone, Copy)]
enum Called {
    Http(&'static str, &'static str),
    Grpc(&'static str),
}

/// Returns a call of any row of the table, with the right that it needs.
fn called() -> impl Strategy<Value = (Called, Right)> {
    let calls = OPERATIONS.iter().flat_map(|operation| {
        let http = operation.http.map(|(method, path)| Called::Http(method, path));
        let calls = http.into_iter().chain(operation.grpc.map(Called::Grpc));
        calls.map(|call| (call, operation.right))
    });
    proptest::sample::select(calls.collect::<Vec<_>>())
}

/// Returns the verdict that the table and the patterns say, by rules of its own.
fn expected(right: Right, actions: &[Action], patterns: &[&str], name: Option<&str>) -> Verdict {
    let is_permitted = match right {
        Right::Open | Right::AnyKey => true,
        Right::Needs(action) => actions.contains(&action),
        Right::NeedsAll => actions.len() == Action::ALL.len(),
    };
    let is_covered = |name: &str| {
        patterns.iter().any(|pattern| match pattern.strip_suffix('*') {
            Some(stem) => name.starts_with(stem),
            None => *pattern == name,
        })
    };
    match name {
        _ if !is_permitted => Verdict::Denied,
        Some(name) if right != Right::Open && !is_covered(name) => Verdict::Hidden,
        _ => Verdict::Permitted,
    }
}

#[test]
fn any_key_permits_what_its_actions_and_patterns_say() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let server = runtime.block_on(TestServer::start_with(Auth::new(true, None, false)));
    let version = AtomicU64::new(10);
    let actions = proptest::sample::subsequence(Action::ALL.to_vec(), 1..=Action::ALL.len());
    let patterns = proptest::sample::subsequence(PATTERNS.to_vec(), 1..=3);
    let inputs = (called(), actions, patterns, proptest::sample::select(NAMES.to_vec()));
    let mut runner = TestRunner::new(Config { cases: 400, ..Config::default() });
    let ran = runner.run(&inputs, |((call, right), actions, patterns, name)| {
        let own = key(2, actions.iter().copied().collect(), &patterns);
        let version = version.fetch_add(1, Ordering::Relaxed);
        let all = records([key(1, Actions::all(), &["*"]), own]);
        server.app.auth.use_records(AccessRecords { version, ..all });
        let (app, caller) = (&server.app, presented(2));
        let (verdict, expected) = match call {
            Called::Http(method, path) => {
                let target = path.replace("{namespace}", name).replace("{id}", "0000000000");
                let name = path.contains("{namespace}").then_some(name);
                let verdict = http_verdict(app, (method, &target), Some(&caller));
                (runtime.block_on(verdict), expected(right, &actions, &patterns, name))
            }
            Called::Grpc(path) => {
                let has_namespace = path.starts_with("/duly.v1.Timers")
                    || path.starts_with("/duly.v1.Namespaces") && !path.ends_with("/List");
                let verdict = grpc_verdict(app, path, name, Some(&caller));
                let name = has_namespace.then_some(name);
                (runtime.block_on(verdict), expected(right, &actions, &patterns, name))
            }
        };
        prop_assert_eq!(verdict, expected);
        Ok(())
    });
    ran.unwrap();
}

#[test]
fn a_rotation_a_second_of_10000_keys_refuses_no_call() {
    const KEYS: usize = 10_000;
    const ROTATIONS: u64 = 30;
    let auth = Auth::new(true, None, false);
    let id = |number: usize| {
        let digits: [u8; 10] = std::array::from_fn(|place| ((number >> (5 * place)) % 32) as u8);
        KeyId::generate(digits)
    };
    let keys = (0..KEYS).map(|number| {
        let key = ApiKey { id: id(number), ..key(1, Actions::all(), &["*"]) };
        (key.id.clone(), key)
    });
    let mut records =
        AccessRecords { version: 1, keys: keys.collect(), ..AccessRecords::default() };
    assert_eq!(records.keys.len(), KEYS);
    auth.use_records(records.clone());
    let secrets = |round: u8| PresentedKey::new(id(usize::from(round)), [round; 32]);
    let has_ended = AtomicBool::new(false);
    thread::scope(|scope| {
        let callers: Vec<_> = (0..2)
            .map(|_| {
                let (auth, has_ended) = (auth.clone(), &has_ended);
                scope.spawn(move || {
                    let mut call = 0;
                    while !has_ended.load(Ordering::Acquire) {
                        let presented = PresentedKey::new(id(call % KEYS), [1; 32]);
                        let headers = HeaderMap::from_iter([(
                            AUTHORIZATION,
                            HeaderValue::from_str(&format!("Bearer {}", presented.reveal()))
                                .unwrap(),
                        )]);
                        let admitted =
                            auth.admit(Right::AnyKey, &headers, Peer::default(), Timestamp::MIN);
                        assert!(admitted.1.is_ok(), "call {call}");
                        call += 1;
                    }
                    call
                })
            })
            .collect();
        // Many times faster than one a second.
        let mut round = 2_u8;
        while records.version <= ROTATIONS {
            let new = secrets(round);
            let key = records.keys.get_mut(&new.id).unwrap();
            key.secrets.truncate(KEY_SECRETS_MAX - 1);
            key.secrets.insert(0, KeySecret { hash: new.hash(), ends_at: None });
            records.version += 1;
            auth.use_records(records.clone());
            round = if round == u8::MAX { 2 } else { round + 1 };
        }
        has_ended.store(true, Ordering::Release);
        for caller in callers {
            let calls = caller.join().unwrap();
            assert!(calls > 100, "{calls} calls");
        }
    });
}
