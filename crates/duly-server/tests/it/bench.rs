//! A complete server without sockets, on the reference store and a clock that stands still.

use std::{path::Path, sync::Arc, time::Duration};

use axum::{Router, body::Body, middleware};
use duly_core::{
    Millis,
    access::{KeyId, PresentedKey},
    env::Clock,
};
use duly_node::Node;
use duly_server::{
    Audit, Auth,
    http::{App, BackupLimits, Backups, Guard, ImplicitNamespaces, Limits, Parts, router},
    telemetry::Metrics,
};
use duly_sink::{Delivery, Envelope, Sink, http::AddressPolicy};
use duly_store::{Store, conformance::ManualClock, memory::MemoryStore};
use futures::future::BoxFuture;
use http::{HeaderMap, HeaderValue, Request, StatusCode, header::AUTHORIZATION};
use http_body_util::BodyExt;
use serde_json::Value;
use tower::ServiceExt;

/// A server under test.
pub(crate) struct Bench {
    pub(crate) router: Router,
    pub(crate) app: App,
    pub(crate) clock: ManualClock,
    pub(crate) store: Arc<dyn Store>,
}

/// A response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    /// Returns the body as JSON; `null` without a body.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_default()
    }

    /// Asserts the status and returns the body.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        self.json()
    }

    /// Asserts a problem with this code and returns it.
    #[track_caller]
    pub(crate) fn problem(self, code: &str) -> Value {
        let problem = self.json();
        assert_eq!(
            self.headers.get("content-type").map(|v| v.as_bytes()),
            Some(&b"application/problem+json"[..]),
            "{}",
            self.text
        );
        assert_eq!(problem["code"], code, "{}", self.text);
        assert_eq!(problem["status"], self.status.as_u16(), "{}", self.text);
        assert_eq!(problem["type"], format!("urn:duly:problem:{code}"));
        for member in ["title", "detail"] {
            let is_text = problem[member].as_str().is_some_and(|t| !t.is_empty());
            assert!(is_text, "{member}: {}", self.text);
        }
        problem
    }
}

impl Bench {
    pub(crate) fn new() -> Self {
        Self::with(ImplicitNamespaces::Create, 32 * 1024 * 1024)
    }

    pub(crate) fn with(implicit_namespaces: ImplicitNamespaces, body_bytes_max: usize) -> Self {
        Self::on(implicit_namespaces, body_bytes_max, |store| store)
    }

    /// Creates a server that makes these backups.
    pub(crate) fn backing_up(backups: Backups) -> Self {
        Self::made(ImplicitNamespaces::Create, 32 * 1024 * 1024, |store| store, backups, None)
    }

    /// Creates a server that requires keys. Each call presents the key of an administrator.
    pub(crate) async fn with_admin() -> Self {
        let root = PresentedKey::new(KeyId::generate([1; 10]), [1; 32]);
        let (implicit, none) = (ImplicitNamespaces::Create, Self::no_backups());
        let bench = Self::made(implicit, 32 * 1024 * 1024, |store| store, none, Some(&root));
        let admin = r#"{"name":"admin","actions":["admin"],"namespaces":["*"]}"#;
        let mut create = request("POST", "/v1/keys", admin);
        let bearer = |secret: &str| format!("Bearer {secret}").parse::<HeaderValue>().unwrap();
        create.headers_mut().insert(AUTHORIZATION, bearer(&root.reveal()));
        let admin = bench.send(create).await.expect(201);
        let value = bearer(admin["secret"].as_str().unwrap());
        let present = middleware::map_request(move |mut request: Request<Body>| {
            request.headers_mut().insert(AUTHORIZATION, value.clone());
            std::future::ready(request)
        });
        Self { router: bench.router.layer(present), ..bench }
    }

    /// Creates a server on a store that `wrap` makes of the reference store.
    pub(crate) fn on(
        implicit_namespaces: ImplicitNamespaces,
        body_bytes_max: usize,
        wrap: impl FnOnce(Arc<dyn Store>) -> Arc<dyn Store>,
    ) -> Self {
        Self::made(implicit_namespaces, body_bytes_max, wrap, Self::no_backups(), None)
    }

    fn no_backups() -> Backups {
        let limits = BackupLimits { count_max: 0, interval: Duration::ZERO };
        let make = Arc::new(|_: &Path| panic!("there is no directory for backups"));
        Backups::new(None, limits, Some(make))
    }

    fn made(
        implicit_namespaces: ImplicitNamespaces,
        body_bytes_max: usize,
        wrap: impl FnOnce(Arc<dyn Store>) -> Arc<dyn Store>,
        backups: Backups,
        root: Option<&PresentedKey>,
    ) -> Self {
        let clock = ManualClock::default();
        let shared: Arc<dyn Clock> = Arc::new(clock.clone());
        let store = wrap(Arc::new(MemoryStore::new(Arc::clone(&shared), 7)));
        let node = Node::start(
            Arc::clone(&store),
            Arc::new(PendingSink),
            Arc::clone(&shared),
            duly_node::Options::default(),
        );
        let app = App::new(Parts {
            store: Arc::clone(&store),
            node,
            clock: shared,
            implicit_namespaces,
            defaults: duly_core::Settings::default(),
            guard: Guard {
                listen: vec![[127, 0, 0, 1].into()],
                allowed_hosts: vec!["duly.internal".into()],
                allowed_origins: vec!["https://console.example".into()],
                trusted_proxies: Vec::new(),
            },
            auth: Auth::new(root.is_some(), root, false),
            audit: Audit::off(),
            addresses: AddressPolicy {
                allow: vec!["10.7.0.0/16".parse().unwrap()],
                ..AddressPolicy::with_loopback()
            },
            limits: Limits {
                tenant_limits_max: duly_core::access::TenantLimits::default(),
                body_bytes_max,
                request_memory_max: 256 * 1024 * 1024,
                request_timeout: Duration::from_secs(30),
                implicit_namespaces_per_second: 20,
            },
            backups,
            metrics: Metrics::install(),
        });
        Self { router: router(app.clone()), app, clock, store }
    }

    /// Sends a request unchanged.
    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        Answer {
            status: parts.status,
            headers: parts.headers,
            text: String::from_utf8(bytes.to_vec()).unwrap(),
        }
    }

    /// Sends a request with a JSON body; an empty text sends none.
    pub(crate) async fn call(&self, method: &str, path: &str, body: &str) -> Answer {
        self.send(request(method, path, body)).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.call("GET", path, "").await
    }

    /// Returns a metric, named with its labels. All tests of the process share it, so others may have
    /// set it as well.
    pub(crate) async fn metric(&self, name: &str) -> f64 {
        let text = self.get("/metrics").await.text;
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
        line.unwrap_or_else(|| panic!("{name} is not among\n{text}")).parse().unwrap()
    }

    pub(crate) async fn post(&self, path: &str, body: &str) -> Answer {
        self.call("POST", path, body).await
    }

    /// Schedules into namespace `a`.
    pub(crate) async fn schedule(&self, body: &str) -> Answer {
        self.post("/v1/namespaces/a/timers", body).await
    }

    /// Leases due firings of namespace `a` and returns their tokens.
    pub(crate) async fn tokens(&self) -> Vec<String> {
        let leased = self.post("/v1/namespaces/a/lease", r#"{"max":100}"#).await;
        let leased = leased.expect(200);
        let firings = leased["firings"].as_array().unwrap();
        let tokens = firings.iter().map(|f| f["token"].as_str().unwrap().into());
        tokens.collect()
    }

    /// Settles one token of namespace `a` and returns the outcome.
    pub(crate) async fn settle(&self, token: &str, verdict: &str) -> String {
        let body = format!(r#"{{"settlements":[{{"token":"{token}",{verdict}}}]}}"#);
        let settled = self.post("/v1/namespaces/a/settle", &body).await.expect(200);
        let outcome = &settled["results"][0]["outcome"];
        outcome.as_str().map_or_else(|| settled.to_string(), str::to_owned)
    }

    /// Brings timer `id` of namespace `a` into a state.
    pub(crate) async fn timer_in(&self, id: &str, state: &str) {
        let delay = match state {
            "scheduled" | "cancelled" => "1h",
            _ => "0s",
        };
        let body = format!(r#"{{"id":"{id}","delay":"{delay}"}}"#);
        self.schedule(&body).await.expect(201);
        let path = format!("/v1/namespaces/a/timers/{id}");
        match state {
            "scheduled" | "due" => {}
            "cancelled" => drop(self.call("DELETE", &path, "").await.expect(200)),
            _ => {
                let tokens = self.tokens().await;
                assert_eq!(tokens.len(), 1, "something else is due");
                let verdict = match state {
                    "in_flight" => None,
                    "retrying" => Some(r#""retry":{"after":"1h"}"#),
                    "finished" => Some(r#""ack":{}"#),
                    "dead" => Some(r#""dead":{"reason":"broken"}"#),
                    other => panic!("{other}"),
                };
                if let Some(verdict) = verdict {
                    assert_eq!(self.settle(&tokens[0], verdict).await, "ok");
                }
            }
        }
        let timer = self.get(&path).await.expect(200);
        assert_eq!(timer["state"], state, "{timer}");
    }

    pub(crate) fn advance(&self, seconds: u64) {
        self.clock.advance(Millis::from_secs(seconds));
    }

    /// Returns all state that a refused call could have changed.
    pub(crate) async fn picture(&self) -> String {
        let mut picture = self.get("/v1/namespaces?limit=1000").await.text;
        let list: Value = serde_json::from_str(&picture).unwrap_or_default();
        let names = list["namespaces"].as_array().into_iter().flatten();
        let names = names.filter_map(|namespace| namespace["name"].as_str());
        for name in names {
            for path in [
                "stats",
                "timers?limit=1000",
                "timers?limit=1000&state=dead",
                "timers?limit=1000&state=finished",
                "timers?limit=1000&state=cancelled",
            ] {
                let answer = self.get(&format!("/v1/namespaces/{name}/{path}")).await;
                picture.push_str(&answer.expect(200).to_string());
            }
        }
        picture
    }
}

/// Returns a request with a JSON body; an empty text sends none.
pub(crate) fn request(method: &str, path: &str, body: &str) -> Request<Body> {
    let builder = Request::builder().method(method).uri(path).header("host", "localhost:3859");
    let builder =
        if body.is_empty() { builder } else { builder.header("content-type", "application/json") };
    builder.body(Body::from(body.to_owned())).unwrap()
}

/// A sink that never gets a delivery.
struct PendingSink;

impl Sink for PendingSink {
    fn deliver(&self, _: Envelope) -> BoxFuture<'_, Delivery> {
        Box::pin(std::future::ready(Delivery::Confirmed))
    }
}
