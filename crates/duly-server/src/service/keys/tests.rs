use duly_core::access::{Action, Actions, NamespacePattern};
use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};
use serde_json::{Value, json};

use super::*;
use crate::{
    auth::{
        Auth,
        tests::{call_http, key, presented},
    },
    tests::TestServer,
};

const ADMIN: u8 = 1;
const HELPER: u8 = 2;
const TEAM: u8 = 3;
const TARGET: u8 = 9;

/// A server whose store has keys.
struct Keys {
    server: TestServer,
}

impl Keys {
    async fn new(keys: impl IntoIterator<Item = ApiKey>) -> Self {
        let keys_required = Auth::new(true, None, false).failures_per_second(1_000_000);
        let server = TestServer::start_with(keys_required).await;
        let own = Self { server };
        for key in keys {
            own.change(AccessChange::Put(Box::new(key))).await;
        }
        own
    }

    async fn change(&self, change: AccessChange) {
        let app = &self.server.app;
        let version = app.auth.records().version;
        let changed = app.store.change_access(version, change, ChangeOrigin::Offline).await;
        changed.unwrap().expect("the newest version");
        app.reread_keys().await;
    }

    async fn call(&self, caller: u8, (method, path): (&str, &str), body: &str) -> (u16, Value) {
        let body = String::leak(body.to_owned());
        let caller = presented(caller);
        let called = call_http(&self.server.app, (method, path), Some(&caller), body).await;
        (called.0.as_u16(), called.1)
    }

    fn stored(&self) -> std::collections::BTreeMap<KeyId, ApiKey> {
        self.server.app.auth.records().keys.clone()
    }
}

fn with(actions: &[Action]) -> Actions {
    actions.iter().copied().collect()
}

fn subject(text: &str) -> Option<Subject> {
    Some(Subject::new(text).unwrap())
}

fn disabled_by(caller: &ApiKey, mut key: ApiKey) -> ApiKey {
    key.disable_by(caller);
    key
}

/// A kind of key, the callers who may see it, and those who may change it.
type Kind<'a> = (&'a str, Option<ApiKey>, &'a [u8], &'a [u8]);

/// Every operation × kind of key × caller.
#[tokio::test]
async fn one_rule_decides_for_every_change_of_a_key() {
    let weak = with(&[Action::Keys, Action::Read]);
    let admin = key(ADMIN, Actions::all(), &["*"]);
    let (helper, team) = (key(HELPER, weak, &["a"]), key(TEAM, weak, &["a", "b*"]));
    let keys = Keys::new([admin.clone(), helper.clone(), team.clone()]).await;
    let own = key(TARGET, with(&[Action::Read]), &["a"]);
    let of_subject = own.clone().with_subject(subject("jwt:sub:a"));
    let offline = ApiKey { disabled: true, ..own.clone() };
    let (all, seen_by_team) = ([ADMIN, HELPER, TEAM], [ADMIN, TEAM]);
    let kinds: [Kind<'_>; 10] = [
        ("own", Some(own.clone()), &all, &all),
        ("disabled by the helper", Some(disabled_by(&helper, own.clone())), &all, &all),
        ("disabled by the team", Some(disabled_by(&team, own.clone())), &all, &seen_by_team),
        ("disabled by an administrator", Some(disabled_by(&admin, own)), &all, &[ADMIN]),
        ("disabled offline", Some(offline), &all, &[ADMIN]),
        ("of a subject", Some(of_subject.clone()), &all, &[ADMIN]),
        ("of a disabled subject", Some(disabled_by(&admin, of_subject)), &all, &[ADMIN]),
        ("of b", Some(key(TARGET, weak, &["b1"])), &seen_by_team, &seen_by_team),
        ("of an administrator", Some(key(TARGET, Actions::all(), &["*"])), &[ADMIN], &[ADMIN]),
        ("missing", None, &[], &[]),
    ];
    let path = format!("/v1/keys/{}", presented(TARGET).id);
    let rotate = format!("{path}/rotate");
    let operations = [
        (("GET", &*path), ""),
        (("PATCH", &path), r#"{"name":"other"}"#),
        (("PATCH", &path), r#"{"disabled":true}"#),
        (("PATCH", &path), r#"{"disabled":false}"#),
        (("PATCH", &path), r#"{"actions":["read"],"namespaces":["a"]}"#),
        (("PATCH", &path), r#"{"networks":["10.0.0.0/8"]}"#),
        (("PATCH", &path), r#"{"expires_at":"2100-01-01T00:00:00Z"}"#),
        (("POST", &rotate), ""),
        (("DELETE", &path), ""),
    ];
    for (kind, target, seen_by, changed_by) in &kinds {
        for (call, body) in operations {
            for caller in all {
                let put = target.clone().map(|key| AccessChange::Put(Box::new(key)));
                keys.change(put.unwrap_or(AccessChange::Delete(presented(TARGET).id))).await;
                let before = keys.stored();
                let (status, answer) = keys.call(caller, call, body).await;
                let has_subject = target.as_ref().is_some_and(|key| key.subject.is_some());
                let expected = match call.0 {
                    _ if !seen_by.contains(&caller) => 404,
                    "GET" => 200,
                    _ if !changed_by.contains(&caller) => 403,
                    "POST" if has_subject => 400,
                    "DELETE" => 204,
                    _ => 200,
                };
                assert_eq!(status, expected, "{caller} {call:?} {body} {kind}: {answer}");
                if status == 404 {
                    let none = format!("there is no key {}", presented(TARGET).id);
                    assert!(answer["detail"].as_str().unwrap().starts_with(&none), "{answer}");
                }
                if status >= 400 {
                    assert_eq!(keys.stored(), before, "{caller} {call:?} {body} {kind}");
                }
            }
        }
    }
    for (body, created_by) in [
        (r#"{"name":"x","actions":["read"],"namespaces":["a"]}"#, &all[..]),
        (r#"{"name":"x","actions":["read"],"namespaces":["b1"]}"#, &seen_by_team),
        (r#"{"name":"x","actions":["schedule"],"namespaces":["a"]}"#, &[ADMIN]),
        (r#"{"name":"x","actions":["read"],"namespaces":["a"],"subject":"cert:x"}"#, &[ADMIN]),
    ] {
        for caller in all {
            let (status, answer) = keys.call(caller, ("POST", "/v1/keys"), body).await;
            let expected = if created_by.contains(&caller) { 201 } else { 403 };
            assert_eq!(status, expected, "{caller} {body}: {answer}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_a_key_creates_keep_its_origin() {
    let rights = with(&[Action::Keys, Action::Read]);
    let admin = key(ADMIN, Actions::all(), &["*"]);
    let keys = Keys::new([admin, key(TEAM, rights, &["a"])]).await;
    let app = &keys.server.app;
    let create = async |caller: &PresentedKey| -> PresentedKey {
        let body = r#"{"name":"x","actions":["keys","read"],"namespaces":["a"]}"#;
        let (status, made) = call_http(app, ("POST", "/v1/keys"), Some(caller), body).await;
        assert_eq!(status, 201, "{made}");
        made["secret"].as_str().unwrap().parse().unwrap()
    };
    let team = presented(TEAM);
    let child = create(&team).await;
    let grandchild = create(&child).await;
    // The chain of creators is gone.
    let path = format!("/v1/keys/{}", child.id);
    assert_eq!(call_http(app, ("DELETE", &path), Some(&grandchild), "").await.0, 204);
    let last = create(&grandchild).await;
    let of_admin = create(&presented(ADMIN)).await;
    let stored = keys.stored();
    for (created, origin) in [(&grandchild, Some(&team)), (&last, Some(&team)), (&of_admin, None)] {
        assert_eq!(stored[&created.id].origin.as_ref(), origin.map(|key| &key.id));
    }
}

#[tokio::test]
async fn the_stronger_of_two_who_disable_a_key_counts() {
    let weak = with(&[Action::Keys, Action::Read]);
    let own = key(TARGET, with(&[Action::Read]), &["a"]);
    let callers = [key(ADMIN, Actions::all(), &["*"]), key(HELPER, weak, &["a"])];
    let keys = Keys::new(callers.into_iter().chain([own])).await;
    let path = format!("/v1/keys/{}", presented(TARGET).id);
    let set = async |caller, disabled: bool| {
        let body = json!({ "disabled": disabled }).to_string();
        keys.call(caller, ("PATCH", &path), &body).await
    };
    assert_eq!(set(HELPER, true).await.0, 200);
    assert_eq!(set(HELPER, false).await.0, 200);
    assert_eq!((set(HELPER, true).await.0, set(ADMIN, true).await.0), (200, 200));
    let (status, refused) = set(HELPER, false).await;
    let by = format!("disabled by the holder of key {}", presented(ADMIN).id);
    assert!(status == 403 && refused["detail"].as_str().unwrap().contains(&by), "{refused}");
    assert_eq!(set(HELPER, true).await.0, 403);
    assert_eq!(set(ADMIN, false).await.0, 200);
    assert_eq!(set(HELPER, true).await.0, 200);
}

#[tokio::test]
async fn an_administrator_cannot_lock_itself_out() {
    let other = key(TARGET, Actions::all(), &["*"]).with_subject(subject("jwt:sub:ops"));
    let keys = Keys::new([key(ADMIN, Actions::all(), &["*"]), other]).await;
    let own = format!("/v1/keys/{}", presented(ADMIN).id);
    // Tests have no address, as a caller of a Unix socket.
    for body in [
        r#"{"disabled":true}"#,
        r#"{"networks":["10.0.0.0/8"]}"#,
        r#"{"actions":["keys"]}"#,
        r#"{"namespaces":["a"]}"#,
    ] {
        let (status, refused) = keys.call(ADMIN, ("PATCH", &own), body).await;
        assert_eq!((status, &refused["field"]), (400, &json!("keys")), "{body} {refused}");
    }
    assert_eq!(keys.call(ADMIN, ("DELETE", &own), "").await.0, 400);
    assert_eq!(keys.call(ADMIN, ("POST", &format!("{own}/rotate")), "").await.0, 200);
}

/// A key of the random attack: actions, patterns, a subject, and who disabled it.
type Drawn = (Vec<Action>, Vec<&'static str>, Option<u8>, Option<u8>);

const PATTERNS: [&str; 6] = ["*", "a", "a*", "b", "b-*", "c*"];
const NAMES: [&str; 7] = ["a", "ab", "b", "b-1", "c", "cc", "zz"];

/// Returns `true` if `own` permits no right that `other` does not, name by name.
fn permits_no_more(own: &ApiKey, other: (Actions, &[NamespacePattern])) -> bool {
    let covers = |patterns: &[NamespacePattern], name| patterns.iter().any(|it| it.matches(name));
    own.actions.iter().all(|action| other.0.contains(action))
        && NAMES.iter().all(|name| !covers(&own.namespaces, name) || covers(other.1, name))
}

#[test]
fn random_changes_of_keys_give_no_caller_more_rights() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let digits = 2..7_u8;
    let drawn = (
        proptest::sample::subsequence(Action::ALL.to_vec(), 1..=Action::ALL.len()),
        proptest::sample::subsequence(PATTERNS.to_vec(), 1..=2),
        proptest::option::weighted(0.3, digits.clone()),
        proptest::option::weighted(0.4, digits.clone()),
    );
    let operation = (digits.clone(), digits.clone(), 0..7_usize, drawn.clone());
    let inputs = (proptest::collection::vec(drawn, 5), proptest::collection::vec(operation, 12));
    let mut runner = TestRunner::new(Config { cases: 60, ..Config::default() });
    let ran = runner.run(&inputs, |(drawn, operations): (Vec<Drawn>, Vec<_>)| {
        let plain: Vec<_> = (2..)
            .zip(&drawn)
            .map(|(digit, (actions, patterns, ..))| key(digit, with(actions), patterns))
            .collect();
        let all = plain.iter().zip(&drawn).map(|(own, (_, _, of, by))| {
            let named = of.map(|_| Subject::new(&format!("jwt:sub:{}", own.id)).unwrap());
            let own = own.clone().with_subject(named);
            by.map_or(own.clone(), |by| disabled_by(&plain[usize::from(by - 2)], own))
        });
        let all = [key(ADMIN, Actions::all(), &["*"])].into_iter().chain(all);
        let keys = runtime.block_on(Keys::new(all));
        for (caller, target, operation, (actions, patterns, subject, _)) in operations {
            let before = keys.stored();
            let path = format!("/v1/keys/{}", presented(target).id);
            let rights = json!({
                "actions": actions.iter().map(|it| it.as_str()).collect::<Vec<_>>(),
                "namespaces": patterns,
            });
            let mut created = rights.clone();
            created["name"] = json!("x");
            if let Some(digit) = subject {
                created["subject"] = json!(format!("jwt:group:{digit}"));
            }
            let (method, path, body) = match operation {
                0 => ("POST", "/v1/keys".to_owned(), created.to_string()),
                1 => ("PATCH", path, rights.to_string()),
                2 => ("PATCH", path, r#"{"disabled":true}"#.to_owned()),
                3 => ("PATCH", path, r#"{"disabled":false}"#.to_owned()),
                4 => ("PATCH", path, r#"{"name":"y"}"#.to_owned()),
                5 => ("POST", format!("{path}/rotate"), String::new()),
                _ => ("DELETE", path, String::new()),
            };
            let call = keys.call(caller, (method, &path), &body);
            let (status, _) = runtime.block_on(call);
            let after = keys.stored();
            if status >= 300 {
                prop_assert_eq!(&before, &after);
                continue;
            }
            let own = &before[&presented(caller).id];
            let rights = (own.actions, &*own.namespaces);
            let ids = before.keys().chain(after.keys());
            for id in ids.filter(|id| before.get(id) != after.get(id)) {
                for changed in [before.get(id), after.get(id)].into_iter().flatten() {
                    prop_assert!(permits_no_more(changed, rights), "{changed:?} {own:?}");
                    prop_assert!(changed.subject.is_none() || own.is_admin());
                }
                if let Some(by) = before.get(id).and_then(|key| key.disabled_by.clone()) {
                    let by = ApiKey { namespaces: by.namespaces, ..key(8, by.actions, &[]) };
                    prop_assert!(permits_no_more(&by, rights), "{by:?} {own:?}");
                }
            }
            prop_assert!(
                after[&presented(ADMIN).id] == before[&presented(ADMIN).id] || own.is_admin()
            );
        }
        Ok(())
    });
    ran.unwrap();
}

#[tokio::test]
async fn a_call_from_before_the_first_key_creates_none() {
    let server = TestServer::start().await;
    let app = &server.app;
    let create = crate::operations::of_http(&http::Method::POST, "/v1/keys");
    let admitted = Admitted::new(app.clone(), create, Caller::Anyone, None, None);
    let request = || CreateKeyRequest {
        name: "x".to_owned(),
        actions: vec!["admin".to_owned()],
        namespaces: vec!["*".to_owned()],
        ..CreateKeyRequest::default()
    };
    let refused = admitted.create_key(request()).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    // Another node, or a command on the store, creates it while the body of the call is on its way.
    let first = AccessChange::Put(Box::new(key(ADMIN, Actions::all(), &["*"])));
    app.store.change_access(0, first, ChangeOrigin::Offline).await.unwrap().unwrap();
    app.reread_keys().await;
    let refused = admitted.create_key(request()).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unauthenticated);
    assert_eq!(app.auth.records().keys.len(), 1);
}
