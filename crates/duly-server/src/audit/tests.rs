use std::{fs, path::Path, sync::LazyLock, time::Instant};

use duly_core::access::{Action, Actions, PresentedKey, Role, Subject};
use duly_core::env::Clock;
use duly_store::{
    AccessChange, AuditStore, ChangeOrigin,
    conformance::{ManualClock, StandIn},
    memory::MemoryStore,
};
use serde_json::Value;

use super::{drops::UNKNOWN_MAX, *};
use crate::{
    auth::{
        Auth,
        tests::{call_http, grpc_verdict, key, presented, records},
    },
    http::App,
    operations::of_grpc,
    service::Admitted,
    tests::TestServer,
};

fn options(file: Option<&Path>, level: AuditLevel) -> AuditOptions {
    AuditOptions {
        file: file.map(Path::to_owned),
        level,
        is_required: false,
        file_bytes_max: 1024 * 1024,
        files_max: 3,
    }
}

/// Starts a server with an administrator (1), a producer in `a` (2), a caller who may do more there (3), and this audit
/// log.
async fn server(options: AuditOptions) -> TestServer {
    let auth = Auth::new(true, None, false).failures_per_second(1_000_000);
    let started = |store: &Arc<dyn Store>| Audit::start(options, Arc::clone(store)).unwrap();
    let server = TestServer::start_audited(auth, started).await;
    let worker = [Action::Schedule, Action::Consume, Action::Operate, Action::Read];
    let keys = [
        key(1, Actions::all(), &["*"]),
        key(2, Role::Producer.actions(), &["a"]),
        key(3, worker.into_iter().collect(), &["a"]),
    ];
    server.app.auth.use_records(records(keys));
    server
}

async fn lines(app: &App, file: &Path) -> Vec<Value> {
    // One flush has a time limit, which a loaded machine may reach.
    for _ in 0..10 {
        app.audit.flush().await;
    }
    let text = fs::read_to_string(file).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn shown(line: &Value) -> String {
    let text = |field: &str| line[field].as_str().unwrap_or("-").to_owned();
    let key = if line["key"].is_null() { "none" } else { "key" };
    let (items, status) = (&line["items"], &line["status"]);
    [key, &text("operation"), &text("action"), &text("namespace"), &text("outcome")].join(" ")
        + &format!(" {items} {status}")
}

async fn calls(app: &App, admin: &PresentedKey, producer: &PresentedKey) {
    let timers = "/v1/namespaces/a/timers";
    let http = async |call, key, body| call_http(app, call, key, body).await.0.as_u16();
    let timer = r#"{"id":"secret-id","delay":"1h","payload":{"card":"secret-card"}}"#;
    assert_eq!(http(("POST", timers), Some(producer), timer).await, 201);
    let batch = r#"{"operations":[{"cancel":{"id":"x"}},{"fire":{"id":"y"}}]}"#;
    assert_eq!(http(("POST", "/v1/namespaces/a/batch"), Some(producer), batch).await, 200);
    assert_eq!(http(("GET", "/v1/namespaces/a/timers/secret-id"), Some(producer), "").await, 200);
    assert_eq!(http(("POST", "/v1/namespaces/b/timers"), Some(producer), timer).await, 404);
    assert_eq!(http(("POST", timers), None, timer).await, 401);
    assert_eq!(http(("GET", "/v1/cluster"), Some(producer), "").await, 403);
    let secrets = r#"{"signing_secrets":["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]}"#;
    assert_eq!(http(("PUT", "/v1/namespaces/b"), Some(admin), secrets).await, 201);
    assert_eq!(http(("PUT", "/v1/namespaces/b"), Some(admin), "{").await, 400);
    assert_eq!(http(("GET", "/healthz"), None, "").await, 200);
    grpc_verdict(app, "/duly.v1.Namespaces/Pause", "a", Some(admin)).await;
    grpc_verdict(app, "/duly.v1.Timers/Schedule", "c", Some(producer)).await;
}

const EXPECTED: [&str; 9] = [
    "key schedule_timer schedule a ok 1 201",
    // A part of it was denied.
    "key batch schedule a denied 1 200",
    "key schedule_timer schedule b denied null 404",
    "none schedule_timer schedule - denied null 401",
    "key cluster store - denied null 403",
    "key put_namespace namespace b ok null 201",
    "key put_namespace namespace b refused null 400",
    "key pause_namespace operate a ok null 200",
    "key schedule_timer schedule c denied null 404",
];

#[tokio::test(flavor = "multi_thread")]
async fn changes_and_refusals_get_a_line_without_secrets() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("audit");
    let server = server(options(Some(&file), AuditLevel::Changes)).await;
    let (admin, producer) = (presented(1), presented(2));
    calls(&server.app, &admin, &producer).await;
    let shown: Vec<_> = lines(&server.app, &file).await.iter().map(shown).collect();
    assert_eq!(shown, EXPECTED);
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains(admin.id.as_str()) && text.contains(producer.id.as_str()));
    for secret in ["secret-id", "secret-card", "whsec_", "duly_"] {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
    assert!(!text.contains(admin.reveal().split('_').nth(2).unwrap()));
}

#[tokio::test(flavor = "multi_thread")]
async fn levels_choose_the_calls() {
    for (level, count) in [(AuditLevel::Denied, 5), (AuditLevel::Changes, 9), (AuditLevel::All, 10)]
    {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("audit");
        let server = server(options(Some(&file), level)).await;
        calls(&server.app, &presented(1), &presented(2)).await;
        assert_eq!(lines(&server.app, &file).await.len(), count, "{level:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_store_has_what_administrators_did() {
    let server = server(options(None, AuditLevel::Changes)).await;
    let (app, admin) = (&server.app, presented(1));
    calls(app, &admin, &presented(2)).await;
    let deadline = Instant::now() + Duration::from_secs(20);
    let records = loop {
        let (status, page) = call_http(app, ("GET", "/v1/audit"), Some(&admin), "").await;
        assert_eq!(status, 200, "{page}");
        let records = page["records"].as_array().unwrap().clone();
        if records.len() == 2 {
            break records;
        }
        assert!(Instant::now() < deadline, "{records:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let mut shown: Vec<_> = records.iter().map(shown).collect();
    shown.sort();
    assert_eq!(shown, [EXPECTED[7], EXPECTED[5]]);
    let (_, page) = call_http(app, ("GET", "/v1/audit?limit=1"), Some(&admin), "").await;
    let next = format!("/v1/audit?limit=1&cursor={}", page["cursor"].as_str().unwrap());
    let (_, second) = call_http(app, ("GET", &next), Some(&admin), "").await;
    assert_ne!(page["records"], second["records"]);
    // A key for one namespace sees the records of that.
    let keys = [key(1, Actions::all(), &["*"]), key(3, Actions::all(), &["b"])];
    let newer = records_above(keys, app);
    app.auth.use_records(newer);
    let (_, page) = call_http(app, ("GET", "/v1/audit"), Some(&presented(3)), "").await;
    let names: Vec<_> =
        page["records"].as_array().unwrap().iter().map(|it| &it["namespace"]).collect();
    assert_eq!(names, ["b"]);
    let (status, _) = call_http(app, ("GET", "/v1/audit?cursor=x"), Some(&admin), "").await;
    assert_eq!(status, 400);
}

fn records_above(
    keys: impl IntoIterator<Item = duly_core::access::ApiKey>,
    app: &App,
) -> duly_store::AccessRecords {
    let version = app.auth.records().version + 1;
    duly_store::AccessRecords { version, ..records(keys) }
}

/// A file on a full disk. It stays open until the process ends: a log opens its path again at any time, and the number
/// of a closed file may name a file of another test then.
pub(crate) struct FullFile(&'static fs::File);

impl FullFile {
    pub(crate) fn open() -> Self {
        static FILE: LazyLock<fs::File> =
            LazyLock::new(|| fs::File::options().write(true).open("/dev/full").unwrap());
        Self(&FILE)
    }

    /// Returns the options of a log that must be written to the file.
    pub(crate) fn required(&self) -> AuditOptions {
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(self.0));
        let options = options(Some(Path::new(&path)), AuditLevel::Changes);
        AuditOptions { is_required: true, ..options }
    }
}

/// Changes the namespace `first` until the log notices that it cannot be written: the first line is queued.
pub(crate) async fn until_unwritable(app: &App, admin: &PresentedKey) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while app.audit.fault().is_none() {
        assert!(Instant::now() < deadline, "the failure was not noticed");
        call_http(app, ("PUT", "/v1/namespaces/first"), Some(admin), "{}").await;
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_required_log_that_cannot_be_written_refuses_changes() {
    let full = FullFile::open();
    let optional = AuditOptions { is_required: false, ..full.required() };
    for (options, is_refused) in [(full.required(), true), (optional, false)] {
        let server = server(options).await;
        let (app, admin) = (&server.app, presented(1));
        let put = async |name: &str| {
            let path = format!("/v1/namespaces/{name}");
            call_http(app, ("PUT", &path), Some(&admin), "{}").await
        };
        until_unwritable(app, &admin).await;
        let (status, body) = put("second").await;
        assert_eq!(status.as_u16(), if is_refused { 503 } else { 201 }, "{body}");
        let name = NamespaceName::new("second").unwrap();
        let found = app.store.get_namespace(name).await.unwrap();
        assert_eq!(found.is_none(), is_refused, "a refused call changes nothing");
        let (status, _) = call_http(app, ("GET", "/v1/namespaces/first"), Some(&admin), "").await;
        assert_eq!(status, 200, "reads get no line");
        let (status, ready) = call_http(app, ("GET", "/readyz"), Some(&admin), "").await;
        let (found, effect) = match is_refused {
            true => (&ready["reasons"], "changes are refused"),
            false => (&ready["warnings"], "further ones are lost"),
        };
        assert_eq!(status.as_u16(), if is_refused { 503 } else { 200 }, "{ready}");
        let said = found.to_string();
        for part in ["the audit log /proc/self/fd", "No space left", effect, "free space"] {
            assert!(said.contains(part), "{part}: {ready}");
        }
        revocations_pass(app, &admin, is_refused).await;
    }
}

/// A revocation of a key passes, and no other change of one.
async fn revocations_pass(app: &App, admin: &PresentedKey, is_refused: bool) {
    let all = Actions::all();
    let stored = async || app.store.read_access(u64::MAX).await.unwrap().unwrap();
    let subject = Some(Subject::new("jwt:sub:ann").unwrap());
    let with_subject = key(4, all, &["a"]).with_subject(subject);
    for key in [key(1, all, &["*"]), key(2, all, &["a"]), key(3, all, &["*"]), with_subject] {
        let put = AccessChange::Put(Box::new(key));
        let seen = stored().await.version;
        app.store.change_access(seen, put, ChangeOrigin::Offline).await.unwrap().unwrap();
    }
    app.auth.use_records(stored().await);
    let path = |digit| format!("/v1/keys/{}", presented(digit).id);
    let patch = async |body| {
        let (status, body) = call_http(app, ("PATCH", &path(2)), Some(admin), body).await;
        (status.as_u16(), body)
    };
    let widened = if is_refused { 503 } else { 200 };
    for body in [r#"{"disabled":false}"#, r#"{"disabled":true,"name":"x"}"#, r#"{"networks":null}"#]
    {
        let (status, text) = patch(body).await;
        assert_eq!(status, widened, "{body}: {text}");
    }
    assert_eq!(patch(r#"{"disabled":true}"#).await.0, 200);
    assert_eq!(call_http(app, ("DELETE", &path(3)), Some(admin), "").await.0.as_u16(), 204);
    // The removal of a key with a subject can widen the rights of its holder.
    let disabled = r#"{"disabled":true}"#;
    assert_eq!(call_http(app, ("PATCH", &path(4)), Some(admin), disabled).await.0.as_u16(), 200);
    let (status, body) = call_http(app, ("DELETE", &path(4)), Some(admin), "").await;
    assert_eq!(status.as_u16(), if is_refused { 503 } else { 204 }, "{body}");
    assert_eq!(body.to_string().contains("disable it instead"), is_refused, "{body}");
    let records = stored().await;
    assert!(records.keys[&presented(2).id].disabled, "it permits nothing any more");
    assert!(!records.keys.contains_key(&presented(3).id));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_caller_goes_away_has_a_line() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("audit");
    let server = server(options(Some(&file), AuditLevel::Changes)).await;
    let (app, admin) = (&server.app, presented(1));
    let lease = ("POST", "/v1/namespaces/a/lease");
    let call = call_http(app, lease, Some(&admin), r#"{"wait":"30s"}"#);
    tokio::time::timeout(Duration::from_millis(300), call).await.unwrap_err();
    let shown: Vec<_> = lines(app, &file).await.iter().map(shown).collect();
    assert_eq!(shown, ["key lease consume a failed null 499"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn callers_without_a_key_do_not_push_lines_out() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("audit");
    let server = server(options(Some(&file), AuditLevel::Changes)).await;
    let method = "X".repeat(2_000);
    let began = Instant::now();
    for _ in 0..500 {
        let (status, _) = call_http(&server.app, (&method, "/v1/keys"), None, "").await;
        assert_eq!(status, 401);
    }
    // On a slow machine the calls take several seconds, each with lines of its own.
    let seconds = began.elapsed().as_secs() + 1;
    let lines = lines(&server.app, &file).await;
    assert!(lines.len() as u64 <= seconds * u64::from(UNKNOWN_MAX), "{}", lines.len());
    assert_eq!(lines[0]["operation"], "wrong_method");
}

#[test]
fn lines_of_unknown_callers_have_a_limit() {
    let (callers, began) = (UnknownCallers::default(), Instant::now());
    let admitted = |after: Duration| (0..500).filter(|_| callers.admit(began + after)).count();
    assert_eq!(admitted(Duration::ZERO), UNKNOWN_MAX as usize);
    assert_eq!(admitted(Duration::from_millis(999)), 0);
    assert_eq!(admitted(Duration::from_secs(1)), UNKNOWN_MAX as usize);
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_of_keys_name_the_key() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("audit");
    let server = server(options(Some(&file), AuditLevel::Changes)).await;
    let (app, admin) = (&server.app, presented(1));
    for key in app.auth.records().keys.values() {
        let seen = app.store.read_access(u64::MAX).await.unwrap().unwrap().version;
        let put = AccessChange::Put(Box::new(key.clone()));
        app.store.change_access(seen, put, ChangeOrigin::Offline).await.unwrap().unwrap();
    }
    let create = r#"{"name":"x","actions":["read"],"namespaces":["a"],"subject":"jwt:sub:x"}"#;
    let (status, new) = call_http(app, ("POST", "/v1/keys"), Some(&admin), create).await;
    assert_eq!((status.as_u16(), &new["secret"]), (201, &Value::Null), "{new}");
    let lines = lines(app, &file).await;
    assert_eq!(lines[0]["target"], new["key"]["id"]);
    // Only an administrator may create such a key: it would take the place of others of the same caller.
    let narrow = key(4, Actions::all(), &["a"]);
    let newer = records_above([key(1, Actions::all(), &["*"]), narrow], app);
    app.auth.use_records(newer);
    let (status, body) = call_http(app, ("POST", "/v1/keys"), Some(&presented(4)), create).await;
    assert_eq!(status, 403, "{body}");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_changed_nothing_displace_no_changes() {
    let (admin, weak, worker) = (presented(1), presented(2), presented(3));
    let (timers, batch) = ("/v1/namespaces/a/timers", "/v1/namespaces/a/batch");
    let fire = r#"{"operations":[{"fire":{"id":"y"}}]}"#;
    let settle = r#"{"settlements":[{"token":"none","ack":{}}]}"#;
    let overdue = r#"{"due_by":"2020-01-01T00:00:00Z"}"#;
    const SCHEDULE: &str = r#"{"id":"kept","delay":"1h"}"#;
    let both =
        r#"{"operations":[{"cancel":{"id":"gone"}},{"schedule":{"id":"kept","delay":"1h"}}]}"#;
    for (what, call, key, body) in [
        ("a read", ("GET", timers), Some(&weak), ""),
        ("a refused call", ("POST", timers), Some(&weak), "{"),
        ("a denied call", ("GET", "/v1/cluster"), Some(&weak), ""),
        ("a foreign namespace", ("POST", "/v1/namespaces/b/timers"), Some(&weak), "{}"),
        ("a denied item", ("POST", batch), Some(&weak), fire),
        ("no key", ("POST", timers), None, "{}"),
        ("a lease of nothing", ("POST", "/v1/namespaces/a/lease"), Some(&worker), "{}"),
        ("an invalid token", ("POST", "/v1/namespaces/a/settle"), Some(&worker), settle),
        ("the same schedule", ("POST", timers), Some(&worker), SCHEDULE),
        ("a second cancel", ("DELETE", "/v1/namespaces/a/timers/gone"), Some(&worker), ""),
        ("a batch of both", ("POST", batch), Some(&worker), both),
        ("a second pause", ("POST", "/v1/namespaces/a/pause"), Some(&worker), ""),
        ("a second fire", ("POST", "/v1/namespaces/a/timers/due/fire"), Some(&worker), ""),
        ("nothing to forget", ("POST", "/v1/namespaces/a/timers/none/forget"), Some(&worker), ""),
        ("no match", ("POST", "/v1/namespaces/a/cancel"), Some(&worker), r#"{"tag":"none"}"#),
        (
            "a dry run",
            ("POST", "/v1/namespaces/a/cancel"),
            Some(&worker),
            r#"{"all":true,"dry_run":true}"#,
        ),
        (
            "nothing to redrive",
            ("POST", "/v1/namespaces/a/dead/redrive"),
            Some(&worker),
            r#"{"all":true}"#,
        ),
        (
            "nothing to purge",
            ("POST", "/v1/namespaces/a/dead/purge"),
            Some(&worker),
            r#"{"all":true}"#,
        ),
        ("nothing overdue", ("POST", "/v1/namespaces/a/dead/overdue"), Some(&worker), overdue),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("audit");
        let options = AuditOptions {
            file_bytes_max: 16 * 1024,
            files_max: 1,
            ..options(Some(&file), AuditLevel::All)
        };
        let server = server(options).await;
        let app = &server.app;
        let (status, _) = call_http(app, ("PUT", "/v1/namespaces/a"), Some(&admin), "{}").await;
        assert_eq!(status, 200);
        for schedule in [SCHEDULE, r#"{"id":"gone","delay":"1h"}"#, r#"{"id":"due","delay":"0s"}"#]
        {
            call_http(app, ("POST", timers), Some(&worker), schedule).await;
        }
        call_http(app, ("DELETE", "/v1/namespaces/a/timers/gone"), Some(&worker), "").await;
        call_http(app, ("POST", "/v1/namespaces/a/pause"), Some(&worker), "").await;
        for _ in 0..90 {
            call_http(app, call, key, body).await;
        }
        let (status, _) =
            call_http(app, ("DELETE", "/v1/namespaces/a?force=true"), Some(&admin), "").await;
        assert!(status.is_success(), "{status}");
        let lines = lines(app, &file).await;
        let of = |name| lines.iter().filter(|it| it["operation"] == name).count();
        assert_eq!((of("put_namespace"), of("delete_namespace")), (1, 1), "{what}: {lines:?}");
        // The set-up has five lines.
        assert!((8..17).contains(&lines.len()), "{what}: {lines:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_is_dropped_is_recorded_in_doubt() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("audit");
    let server = server(options(Some(&file), AuditLevel::Changes)).await;
    let operation = of_grpc("/duly.v1.Timers/Consume").unwrap();
    let notes = Some(SharedNotes::default());
    let admitted = Admitted::new(server.app.clone(), operation, Caller::Anyone, notes, None);
    let namespace = NamespaceName::new("a").unwrap();
    for is_dropped in [true, false] {
        let step = admitted.step("grpc", &namespace);
        admitted.note(|notes| notes.items += 2);
        if is_dropped { drop(step) } else { step.end(false) }
    }
    // Nothing to tell of.
    drop(admitted.step("grpc", &namespace));
    let lines = lines(&server.app, &file).await;
    let outcomes: Vec<_> = lines.iter().map(|line| (&line["outcome"], &line["items"])).collect();
    assert_eq!(outcomes, [(&"failed".into(), &2.into()), (&"ok".into(), &2.into())]);
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_that_changed_nothing_fill_half_of_the_queue() {
    let full = FullFile::open();
    let server = server(AuditOptions { is_required: false, ..full.required() }).await;
    let audit = &server.app.audit;
    let record = |outcome: &str, status: u16| -> AuditRecord {
        serde_json::from_value(serde_json::json!({
            "time": "2026-11-29T00:00:00Z", "key": "k", "protocol": "http",
            "operation": "put_namespace", "outcome": outcome, "status": status,
        }))
        .unwrap()
    };
    let (refused, change) = (record("refused", 400), record("ok", 200));
    let queue = audit.0.file.as_ref().unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    // The thread takes a batch, which it cannot write.
    while audit.fault().is_none() || queue.capacity() >= LINES_MAX / 2 {
        assert!(Instant::now() < deadline, "{}", queue.capacity());
        audit.write(&refused, false, None);
    }
    let left = queue.capacity();
    for _ in 0..100 {
        audit.write(&refused, false, None);
        audit.write(&change, true, None);
    }
    assert_eq!(queue.capacity(), left - 100, "only changes");
}

#[derive(Debug)]
struct StoreWithoutLog(MemoryStore);

impl StandIn for StoreWithoutLog {
    fn behind(&self) -> &dyn Store {
        &self.0
    }

    fn audit(&self) -> Option<&dyn AuditStore> {
        None
    }
}

#[tokio::test]
async fn a_store_without_an_audit_log_gets_no_entries() {
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::default());
    let start =
        |store: Arc<dyn Store>| Audit::start(options(None, AuditLevel::All), store).unwrap();
    let memory = MemoryStore::new(Arc::clone(&clock), 1);
    assert!(start(Arc::new(StoreWithoutLog(memory))).0.entries.is_none());
    assert!(start(Arc::new(MemoryStore::new(clock, 1))).0.entries.is_some());
}
