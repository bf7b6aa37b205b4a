//! Namespaces: replaced and changed settings, without ever showing a secret.

use std::sync::Arc;

use duly_core::{Millis, NamespaceName, Timestamp};
use duly_server::http::ImplicitNamespaces;
use duly_store::{
    Store, StoreFuture,
    conformance::StandIn,
    namespaces::{IDLE_AFTER, Namespace},
};
use serde_json::json;

use crate::bench::Bench;

const NS: &str = "/v1/namespaces/a";
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

#[tokio::test]
async fn defaults_are_answered() {
    let bench = Bench::new();
    let made = bench.call("PUT", NS, "{}").await.expect(201);
    assert_eq!(made["name"], "a");
    assert_eq!(made["destination"], json!({"pull":{}}));
    assert_eq!(
        made["retry"],
        json!({"max_attempts":16,"min_backoff":"1s","max_backoff":"1h","multiplier":2.0,"jitter":0.2})
    );
    assert_eq!((&made["lease"], &made["retention"]), (&json!("30s"), &json!("1d")));
    assert_eq!((&made["weight"], &made["paused"]), (&json!(1), &json!(false)));
    assert_eq!(
        made["limits"],
        json!({
            "lane":{"max_in_flight":100},
            "namespace":{"max_payload_bytes":262144,"max_dead":1000000,"max_retained":10000000}
        })
    );
    assert_eq!(bench.get(NS).await.expect(200), made);
}

#[tokio::test]
async fn a_put_replaces_whole_but_keeps_secrets() {
    let bench = Bench::new();
    let body = json!({"lease":"5s","weight":3,"signing_secrets":[SECRET]}).to_string();
    let made = bench.call("PUT", NS, &body).await;
    assert!(!made.text.contains(SECRET), "{}", made.text);
    let made = made.expect(201);
    let fingerprints = made["signing_secret_fingerprints"].clone();
    assert_eq!(fingerprints.as_array().unwrap().len(), 1);
    let put = bench.call("PUT", NS, r#"{"weight":4}"#).await.expect(200);
    assert_eq!((&put["lease"], &put["weight"]), (&json!("30s"), &json!(4)));
    assert_eq!(put["signing_secret_fingerprints"], fingerprints);
    let put = bench.call("PUT", NS, r#"{"signing_secrets":[]}"#).await.expect(200);
    assert_eq!(put["signing_secret_fingerprints"], json!([]));
    let listed = bench.get("/v1/namespaces").await;
    assert!(!listed.text.contains("whsec_"), "{}", listed.text);
}

#[tokio::test]
async fn a_patch_keeps_resets_and_replaces_by_field() {
    let bench = Bench::new();
    let body = json!({"lease":"5s","weight":3,"signing_secrets":[SECRET],
        "limits":{"lane":{"max_in_flight":7},"namespace":{"max_pending":5}}});
    bench.call("PUT", NS, &body.to_string()).await.expect(201);
    let body = r#"{"lease":null,"limits":{"lane":{"max_in_flight":9}}}"#;
    let patched = bench.call("PATCH", NS, body).await.expect(200);
    assert_eq!((&patched["lease"], &patched["weight"]), (&json!("30s"), &json!(3)));
    assert_eq!(patched["limits"]["lane"]["max_in_flight"], 9);
    assert!(patched["limits"]["namespace"].get("max_pending").is_none());
    let secrets = &patched["signing_secret_fingerprints"];
    assert_eq!(secrets.as_array().unwrap().len(), 1);
    let patched = bench.call("PATCH", NS, r#"{"signing_secrets":null}"#).await.expect(200);
    assert_eq!(patched["signing_secret_fingerprints"], json!([]));
}

#[tokio::test]
async fn deleting_a_namespace_with_timers_needs_force() {
    let bench = Bench::new();
    bench.timer_in("t", "scheduled").await;
    let problem = bench.call("DELETE", NS, "").await.problem("namespace_not_empty");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("1 pending") && detail.contains("force=true"), "{detail}");
    let gone = bench.call("DELETE", &format!("{NS}?force=true"), "").await;
    assert_eq!((gone.status.as_u16(), gone.text.as_str()), (204, ""));
    bench.get(NS).await.problem("not_found");
    bench.call("PUT", NS, "{}").await.expect(201);
    bench.call("DELETE", NS, "").await.expect(204);
}

#[tokio::test]
async fn a_list_comes_in_pages() {
    let bench = Bench::new();
    for name in ["c", "a", "b"] {
        bench.call("PUT", &format!("/v1/namespaces/{name}"), "{}").await.expect(201);
    }
    let page = bench.get("/v1/namespaces?limit=2").await.expect(200);
    assert_eq!(
        (&page["namespaces"][0]["name"], &page["namespaces"][1]["name"]),
        (&json!("a"), &json!("b"))
    );
    let cursor = page["cursor"].as_str().unwrap();
    let page = bench.get(&format!("/v1/namespaces?limit=2&cursor={cursor}")).await.expect(200);
    assert_eq!(page["namespaces"][0]["name"], "c");
    assert!(page.get("cursor").is_none());
}

#[tokio::test]
async fn stats_count_exactly() {
    let bench = Bench::new();
    for (id, state) in [
        ("f", "finished"),
        ("d", "dead"),
        ("r", "retrying"),
        ("i", "in_flight"),
        ("c", "cancelled"),
        ("s", "scheduled"),
        ("due", "due"),
    ] {
        bench.timer_in(id, state).await;
    }
    let stats = bench.get("/v1/namespaces/a/stats").await.expect(200);
    for (name, count) in [
        ("scheduled", 1),
        ("due", 1),
        ("in_flight", 1),
        ("retrying", 1),
        ("dead", 1),
        ("pending", 4),
        ("retained", 2),
    ] {
        assert_eq!(stats[name], count, "{name}: {stats}");
    }
    assert_eq!(
        stats["totals"],
        json!({"scheduled":7,"fired":4,"delivered":1,"failed":2,"cancelled":1,"rescheduled":0,"dead":1})
    );
    assert_eq!(stats["lanes"][0]["lane"], "pull");
    assert_eq!(stats["lanes"][0]["in_flight"], 1);
    assert_eq!(stats["next_due_at"], "2030-03-17T18:46:40.000Z");
    assert_eq!(stats["oldest_due_at"], "2030-03-17T17:46:40.000Z");
}

#[tokio::test]
async fn credentials_of_a_destination_are_kept_and_not_shown() {
    let bench = Bench::new();
    let destination = json!({"http":{"url":"http://h/","headers":{
        "authorization":"Bearer hunter2","x-vault":"hunter2","accept":"text/plain"}}});
    let body = json!({"destination":destination}).to_string();
    let made = bench.call("PUT", NS, &body).await.expect(201);
    let shown = json!({"authorization":"***","x-vault":"***","accept":"text/plain"});
    assert_eq!(made["destination"]["http"]["headers"], shown);
    let timer = json!({"id":"t","delay":"1h","destination":destination}).to_string();
    let timer = bench.schedule(&timer).await.expect(201);
    assert_eq!(timer["destination"]["http"]["headers"], shown);
    // A change of another setting keeps them; a redacted value cannot be written back.
    bench.call("PATCH", NS, r#"{"weight":2}"#).await.expect(200);
    let echoed = json!({"destination":made["destination"]}).to_string();
    for method in ["PUT", "PATCH"] {
        let problem = bench.call(method, NS, &echoed).await.problem("invalid_argument");
        assert_eq!(problem["field"], "destination.http.headers.authorization");
    }
    let kept = bench
        .store
        .get_namespace(duly_core::NamespaceName::new("a").unwrap())
        .await
        .unwrap()
        .unwrap();
    let duly_core::Destination::Http(http) = &kept.settings.destination else {
        panic!("another destination")
    };
    assert_eq!(http.headers.get("x-vault"), Some("hunter2"));
}

#[tokio::test]
async fn the_query_of_a_url_is_kept_and_not_shown() {
    let bench = Bench::new();
    let destination = json!({"http":{"url":"http://h/x?token=hunter2"}});
    let body = json!({"destination":destination}).to_string();
    let made = bench.call("PUT", NS, &body).await.expect(201);
    assert_eq!(made["destination"]["http"]["url"], "http://h/x?***");
    let timer = json!({"id":"t","delay":"1h","destination":destination}).to_string();
    let timer = bench.schedule(&timer).await.expect(201);
    assert_eq!(timer["destination"]["http"]["url"], "http://h/x?***");
    let echoed = json!({"destination":made["destination"]}).to_string();
    let problem = bench.call("PATCH", NS, &echoed).await.problem("invalid_argument");
    assert_eq!(problem["field"], "destination.http.url");
    let kept = bench.store.get_namespace(duly_core::NamespaceName::new("a").unwrap()).await;
    let kept = kept.unwrap().unwrap();
    let duly_core::Destination::Http(http) = &kept.settings.destination else {
        panic!("another destination")
    };
    assert_eq!(http.url().as_str(), "http://h/x?token=hunter2");
}

#[tokio::test]
async fn cancel_without_a_namespace_has_a_definite_outcome() {
    let bench = Bench::new();
    let problem = bench.call("DELETE", &format!("{NS}/timers/t"), "").await.problem("not_found");
    assert_eq!(problem["outcome"], "not_found");
    let body = r#"{"operations":[{"cancel":{"id":"t"}}]}"#;
    let results = bench.post(&format!("{NS}/batch"), body).await.expect(200);
    assert_eq!(results["results"][0]["error"]["outcome"], "not_found", "{results}");
}

#[tokio::test]
async fn a_forecast_counts_each_pending_timer_once() {
    let bench = Bench::new();
    for (id, state) in
        [("f", "finished"), ("d", "dead"), ("i", "in_flight"), ("s", "scheduled"), ("due", "due")]
    {
        bench.timer_in(id, state).await;
    }
    let path = "/v1/namespaces/a/forecast";
    let forecast = bench.get(&format!("{path}?bucket=30m&count=3")).await.expect(200);
    assert_eq!(
        forecast,
        json!({
            "now": "2030-03-17T17:46:40.000Z",
            "bucket": "30m",
            "overdue": 1,
            "in_flight": 1,
            "buckets": [
                {"from": "2030-03-17T17:30:00.000Z", "due": 0},
                {"from": "2030-03-17T18:00:00.000Z", "due": 0},
                {"from": "2030-03-17T18:30:00.000Z", "due": 1},
            ],
            "later": 0,
            "pending": 3,
        })
    );
    let forecast = bench.get(path).await.expect(200);
    assert_eq!((&forecast["bucket"], &forecast["later"]), (&json!("1m"), &json!(1)));
    assert_eq!(forecast["buckets"].as_array().map(Vec::len), Some(60));
    let milliseconds = bench.get(&format!("{path}?bucket=60000ms&count=60")).await.expect(200);
    assert_eq!(milliseconds, forecast);
}

#[tokio::test]
async fn allowed_addresses_pass_and_names_are_not_looked_up() {
    let bench = Bench::new();
    for host in ["127.0.0.1:9", "2130706433", "10.7.1.2", "8.8.8.8", "no-such-name.invalid"] {
        let body = json!({"destination":{"http":{"url":format!("http://{host}/")}}});
        let answer = bench.call("PUT", NS, &body.to_string()).await;
        assert!(answer.status.is_success(), "{host}: {}", answer.text);
    }
}

#[tokio::test]
async fn newer_address_rules_do_not_block_other_changes() {
    let bench = Bench::new();
    bench.call("PUT", NS, "{}").await.expect(201);
    let to = duly_core::destination::HttpDestination::new("http://10.0.0.1/").unwrap();
    let settings =
        duly_core::Settings { destination: duly_core::Destination::Http(to), ..Default::default() };
    let put = duly_store::namespaces::Put::Replace {
        settings: Box::new(settings),
        secrets: duly_store::namespaces::Secrets::Keep,
    };
    bench.store.put_namespace(duly_core::NamespaceName::new("a").unwrap(), put).await.unwrap();
    let patched = bench.call("PATCH", NS, r#"{"weight":2}"#).await.expect(200);
    assert_eq!(patched["destination"]["http"]["url"], "http://10.0.0.1/");
    let again = r#"{"destination":{"http":{"url":"http://10.0.0.2/"}}}"#;
    bench.call("PATCH", NS, again).await.problem("invalid_argument");
}

/// Regression test: one connection created 10,900 namespaces in 12 s.
#[tokio::test]
async fn implicit_namespaces_have_a_rate_limit() {
    let bench = Bench::new();
    let schedule = |name: String| {
        let bench = &bench;
        async move {
            let body = json!({"id": "t", "delay": "1h", "payload": {"text": "x"}}).to_string();
            bench.post(&format!("/v1/namespaces/{name}/timers"), &body).await
        }
    };
    // A burst of ten seconds.
    for number in 0..200 {
        schedule(format!("n{number}")).await.expect(201);
    }
    let refused = schedule("more".to_owned()).await;
    assert_eq!(refused.headers["retry-after"], "1");
    let problem = refused.problem("resource_exhausted");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("limits.implicit_namespaces_per_second"), "{detail}");
    bench.get("/v1/namespaces/more").await.problem("not_found");
    // Existing namespaces accept timers, and a namespace that PUT creates does not count.
    let again = json!({"id": "u", "delay": "1h", "payload": {"text": "x"}}).to_string();
    bench.post("/v1/namespaces/n0/timers", &again).await.expect(201);
    bench.call("PUT", "/v1/namespaces/made", "{}").await.expect(201);
    bench.clock.advance(duly_core::Millis::from_secs(1));
    for number in 0..20 {
        schedule(format!("later{number}")).await.expect(201);
    }
    schedule("more".to_owned()).await.problem("resource_exhausted");
}

#[tokio::test]
async fn a_schedule_that_makes_its_namespace_names_a_similar_one() {
    let bench = Bench::new();
    bench.call("PUT", "/v1/namespaces/orders", "{}").await.expect(201);
    let schedule = async |namespace: &str, id: &str| {
        let path = format!("/v1/namespaces/{namespace}/timers");
        let body = json!({"id": id, "delay": "1h"}).to_string();
        let made = bench.call("POST", &path, &body).await;
        made.headers.get("duly-notice").map(|notice| notice.to_str().unwrap().to_owned())
    };
    assert_eq!(schedule("orders", "a").await, None);
    let notice = schedule("ordres", "a").await;
    let said = r#"there was no namespace "ordres": this call created it; there is "orders" too"#;
    assert_eq!(notice.as_deref(), Some(said));
    assert_eq!(schedule("ordres", "b").await, None, "it is there now");
    let notice = schedule("payments", "a").await;
    assert_eq!(
        notice.as_deref(),
        Some(r#"there was no namespace "payments": this call created it"#)
    );
}

#[tokio::test]
async fn every_json_answer_ends_with_a_line_break() {
    let bench = Bench::new();
    bench.call("PUT", NS, "{}").await.expect(201);
    let timer = json!({"id": "t", "delay": "0s"}).to_string();
    for (method, path, body) in [
        ("POST", "/v1/namespaces/a/timers", &*timer),
        ("GET", "/v1/namespaces/a/timers/t", ""),
        ("GET", "/v1/namespaces/a/timers", ""),
        ("GET", "/v1/namespaces/a/timers/none", ""),
        ("GET", "/v1/nowhere", ""),
        ("POST", "/v1/namespaces/a/batch", r#"{"operations":[]}"#),
        ("POST", "/v1/namespaces/a/lease", "{}"),
        ("GET", NS, ""),
        ("GET", "/v1/namespaces", ""),
        ("GET", "/v1/namespaces/a/stats", ""),
        ("GET", "/v1/cluster", ""),
        ("GET", "/readyz", ""),
        ("GET", "/openapi.json", ""),
    ] {
        let answer = bench.call(method, path, body).await;
        assert!(answer.text.ends_with("}\n"), "{method} {path}: {:?}", answer.text);
    }
}

/// A store that has removed its idle namespaces since the last call for them.
#[derive(Debug)]
struct RemovingStore(Arc<dyn Store>);

impl StandIn for RemovingStore {
    fn behind(&self) -> &dyn Store {
        &*self.0
    }

    fn get_namespace(&self, name: NamespaceName) -> StoreFuture<'_, Option<Namespace>> {
        Box::pin(async move {
            if let Some(found) = self.0.get_namespace(name.clone()).await? {
                return Ok(Some(found));
            }
            let made = Timestamp::MIN;
            let (settings, paused, resumes_at) = (Arc::default(), false, None);
            let (created_at, updated_at) = (made, made);
            Ok(Some(Namespace {
                name,
                settings,
                paused,
                resumes_at,
                created_at,
                updated_at,
                maybe_outdated: false,
            }))
        })
    }
}

#[tokio::test]
async fn p3_schedules_survive_the_removal_of_an_idle_namespace() {
    let bench =
        Bench::on(ImplicitNamespaces::Create, 64 * 1024, |store| Arc::new(RemovingStore(store)));
    bench.clock.advance(IDLE_AFTER);
    bench.clock.advance(Millis::from_secs(1));
    bench.schedule(r#"{"id":"one","delay":"1h"}"#).await.expect(201);

    let ids: Vec<String> = (0..30).map(|i| format!("t{i}")).collect();
    let schedule = |id: &String| json!({"schedule":{"id":id,"delay":"1h"}});
    let mut operations: Vec<_> = ids.iter().map(schedule).collect();
    operations.push(json!({"cancel":{"id":"t0"}}));
    let body = json!({ "operations": operations }).to_string();
    let batch = bench.call("POST", "/v1/namespaces/batch/batch", &body).await.expect(200);
    let results = batch["results"].as_array().expect("one for each");
    assert_eq!(results.len(), 31);
    assert!(results.iter().all(|result| result.get("error").is_none()), "{batch}");
    let page = bench.get("/v1/namespaces/batch/timers?state=scheduled").await.expect(200);
    assert_eq!(page["timers"].as_array().unwrap().len(), 29, "{page}");
}
