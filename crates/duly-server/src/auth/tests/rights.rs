//! The rights of a key, over HTTP and gRPC.

use super::*;

/// Every operation × role × own, foreign and unknown namespace, over HTTP and gRPC.
#[tokio::test]
async fn the_matrix_of_operations_roles_and_namespaces() {
    let server =
        TestServer::start_with(Auth::new(true, None, false).failures_per_second(1_000_000)).await;
    let app = &server.app;
    let roles: BTreeMap<_, _> =
        (1..).zip(Role::ALL).map(|(digit, role)| (digit, role.actions())).collect();
    let keys = roles.iter().map(|(digit, actions)| key(*digit, *actions, &["a", "b*"]));
    app.auth.use_records(records(keys));
    let expect = |right: Right, actions: Actions, is_own: bool| match right {
        Right::Open => Verdict::Permitted,
        Right::Needs(action) if !actions.contains(action) => Verdict::Denied,
        Right::NeedsAll if actions != Actions::all() => Verdict::Denied,
        _ if !is_own => Verdict::Hidden,
        _ => Verdict::Permitted,
    };
    let of_http = OPERATIONS.iter().filter_map(|it| Some((it.http?, it.right)));
    for ((method, path), right) in of_http {
        let names: &[&str] = if path.contains("{namespace}") { &["a", "c", "zz"] } else { &[""] };
        for name in names {
            let target = path.replace("{namespace}", name).replace("{id}", "0123456789");
            let without_key = http_verdict(app, (method, &target), None).await;
            let open = [Verdict::Unauthenticated, Verdict::Permitted];
            assert_eq!(without_key, open[usize::from(right == Right::Open)], "{method} {target}");
            for (digit, actions) in &roles {
                let verdict = http_verdict(app, (method, &target), Some(&presented(*digit))).await;
                let mut expected = expect(right, *actions, matches!(*name, "" | "a"));
                if target.contains("/keys") && method != "GET" && verdict == Verdict::Denied {
                    // A caller can change no key that permits more than its own.
                    expected = Verdict::Denied;
                }
                assert_eq!(verdict, expected, "{method} {target} {actions:?}");
            }
        }
    }
    let of_grpc = OPERATIONS.iter().filter_map(|it| Some((it.grpc?, it.right)));
    for (path, right) in of_grpc {
        let has_namespace = path.starts_with("/duly.v1.Timers")
            || path.starts_with("/duly.v1.Namespaces") && !path.ends_with("/List");
        let names: &[&str] = if has_namespace { &["a", "c", "zz"] } else { &[""] };
        for name in names {
            let without_key = grpc_verdict(app, path, name, None).await;
            assert_eq!(without_key == Verdict::Unauthenticated, right != Right::Open, "{path}");
            for (digit, actions) in &roles {
                let verdict = grpc_verdict(app, path, name, Some(&presented(*digit))).await;
                let expected = expect(right, *actions, matches!(*name, "" | "a"));
                assert_eq!(verdict, expected, "{path} {name} {actions:?}");
            }
        }
    }
}

#[tokio::test]
async fn payloads_and_fires_need_their_own_right() {
    let server =
        TestServer::start_with(Auth::new(true, None, false).failures_per_second(1_000_000)).await;
    let app = &server.app;
    let producer = Role::Producer.actions();
    let keys = [key(1, Actions::all(), &["*"]), key(2, producer, &["a"])];
    app.auth.use_records(records(keys));
    let (admin, producer) = (presented(1), presented(2));
    let timers = "/v1/namespaces/a/timers";
    let schedule = r#"{"id":"x","delay":"1h","payload":{"card":1234},"headers":{"k":"v"}}"#;
    let (status, made) = call_http(app, ("POST", timers), Some(&producer), schedule).await;
    assert_eq!(
        (status.as_u16(), &made["payload"], &made["headers"]),
        (201, &json!(null), &json!(null))
    );
    let get = async |path: &str, key| call_http(app, ("GET", path), Some(key), "").await;
    let (_, timer) = get("/v1/namespaces/a/timers/x", &producer).await;
    assert_eq!((&timer["id"], &timer["payload"]), (&json!("x"), &json!(null)));
    let (_, timer) = get("/v1/namespaces/a/timers/x", &admin).await;
    assert_eq!(timer["payload"], json!({"card": 1234}));
    let (_, page) = get(timers, &producer).await;
    assert_eq!(page["timers"][0]["payload"], json!(null));
    let (status, refused) = get(&format!("{timers}?view=full"), &producer).await;
    assert_eq!((status.as_u16(), refused["allowed"].as_str()), (403, Some("payload")));
    let batch = r#"{"operations":[{"fire":{"id":"x"}},{"cancel":{"id":"x"}}]}"#;
    let path = "/v1/namespaces/a/batch";
    let (status, done) = call_http(app, ("POST", path), Some(&producer), batch).await;
    assert_eq!(status, 200);
    assert_eq!(done["results"][0]["error"]["code"], "permission_denied");
    assert_eq!(done["results"][1]["outcome"], "cancelled");
}

#[tokio::test]
async fn a_receiver_of_a_namespace_needs_the_right_to_payloads() {
    let server = TestServer::start_with(Auth::new(true, None, false)).await;
    let app = &server.app;
    let with = |actions: &[Action]| actions.iter().copied().collect::<Actions>();
    app.auth.use_records(records([
        key(1, Actions::all(), &["*"]),
        key(2, with(&[Action::Namespace]), &["a*"]),
        key(3, with(&[Action::Namespace, Action::Payload]), &["a*"]),
        key(4, with(&[Action::Namespace, Action::Schedule]), &["a*"]),
    ]));
    let own = r#"{"destination":{"http":{"url":"http://127.0.0.1:9/own"}}}"#;
    let other = r#"{"destination":{"http":{"url":"http://127.0.0.1:9/other"}}}"#;
    let second = r#"{"fallback":{"destination":{"http":{"url":"http://127.0.0.1:9/2"}}}}"#;
    for (digit, method, name, body, expected) in [
        (2, "PUT", "a1", own, 403),
        (2, "PUT", "a1", "{}", 201),
        (2, "PATCH", "a1", own, 403),
        (2, "PATCH", "a1", second, 403),
        (2, "PUT", "a1", second, 403),
        (3, "PUT", "a1", own, 200),
        (3, "PATCH", "a1", second, 200),
        // The settings around a known receiver can be written.
        (2, "PATCH", "a1", r#"{"retention":"1h"}"#, 200),
        (2, "PATCH", "a1", own, 200),
        (2, "PUT", "a1", own, 200),
        (2, "PATCH", "a1", other, 403),
        (2, "PUT", "a1", other, 403),
        // It may redirect each timer.
        (4, "PATCH", "a1", other, 200),
        (2, "PUT", "a1", "{}", 200),
        (2, "PUT", "a1", other, 403),
        (4, "PUT", "a2", other, 201),
    ] {
        let path = format!("/v1/namespaces/{name}");
        let (status, answer) = call_http(app, (method, &path), Some(&presented(digit)), body).await;
        assert_eq!(status, expected, "{digit} {method} {body}: {answer}");
        if expected == 403 {
            assert_eq!(answer["allowed"], "payload", "{answer}");
        }
    }
}

#[tokio::test]
async fn a_caller_learns_nothing_of_foreign_namespaces() {
    let server = TestServer::start_with(Auth::new(true, None, false)).await;
    let app = &server.app;
    let with = |actions: &[Action]| actions.iter().copied().collect::<Actions>();
    let narrow = with(&[Action::Schedule, Action::Read]);
    let keys = [
        key(1, Actions::all(), &["*"]),
        key(2, narrow, &["b*", "d", "f*"]),
        key(3, with(&[Action::Schedule, Action::Read, Action::Namespace]), &["b*"]),
    ];
    app.auth.use_records(records(keys));
    for name in ["b", "b1", "b2", "c", "c1", "d", "da", "e", "f9", "g"] {
        let path = format!("/v1/namespaces/{name}");
        let (status, _) = call_http(app, ("PUT", &path), Some(&presented(1)), "{}").await;
        assert_eq!(status, 201);
    }
    let list = async |query: &str| {
        let path = format!("/v1/namespaces{query}");
        let (_, page) = call_http(app, ("GET", &path), Some(&presented(2)), "").await;
        let names = page["namespaces"].as_array().unwrap().iter();
        let names: Vec<_> = names.map(|it| it["name"].as_str().unwrap().to_owned()).collect();
        (names.join(" "), page["cursor"].as_str().map(str::to_owned))
    };
    assert_eq!(list("").await, ("b b1 b2 d f9".to_owned(), None));
    assert_eq!(list("?limit=2").await, ("b b1".to_owned(), Some("b1".to_owned())));
    assert_eq!(list("?limit=2&cursor=b1").await, ("b2 d".to_owned(), Some("d".to_owned())));
    assert_eq!(list("?limit=2&cursor=d").await, ("f9".to_owned(), None));
    let body = async |name: &str, digit| {
        let path = format!("/v1/namespaces/{name}/timers");
        let schedule = r#"{"delay":"1h"}"#;
        let (status, body) =
            call_http(app, ("POST", &path), Some(&presented(digit)), schedule).await;
        (
            status.as_u16(),
            body["detail"].as_str().unwrap_or_default().replace(&format!("{name:?}"), "NAME"),
        )
    };
    // An existing foreign namespace and a missing one look alike.
    assert_eq!(body("e", 2).await, body("eee", 2).await);
    // No caller creates a namespace without the right to.
    let (status, detail) = body("b-new", 2).await;
    assert!(status == 403 && detail.contains("namespace"), "{detail}");
    assert_eq!(body("b-new", 3).await.0, 201);
}
