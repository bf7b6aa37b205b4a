//! Compares `docs/reference/limits.md` with the code: every limit has a row, with its default, its
//! bounds and the status of its error.

use std::collections::BTreeMap;

use duly_core::{
    Code, Millis, Timestamp,
    access::{NamespacePattern, TENANT_LIST_MAX, Tenant, TenantLimit, TenantLimits, TenantName},
    destination, headers, ids, limits, namespace, payload,
    retry::{self, Exponential},
    schedule, timer,
};
use duly_store::{forecast, query};
use duly_tls::chain;
use serde_json::json;

use super::*;
use crate::{
    config::{keys::Key, numbers::bytes_text},
    connection::{PACE, streams},
};
use duly_api::{
    self as api, Limits, NamespaceSettings,
    namespace::{IN_FLIGHT_MAX, PER_SECOND_MAX},
};

/// Keys with a number that limits nothing for callers and operators.
const NOT_LIMITS: [&str; 6] = [
    key!(store.segment_bytes),
    key!(store.checkpoint_bytes),
    key!(store.young_bytes),
    key!(store.shards),
    key!(store.min_replicas),
    key!(store.connections),
];

const SCOPES: [&str; 11] = [
    "key",
    "timer",
    "namespace",
    "tenant",
    "lane",
    "request",
    "connection",
    "attempt",
    "receiver",
    "node",
    "deployment",
];

/// Default and allowed values of a limit, as the page shows them.
type Bounds = (String, String);

fn page() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/limits.md");
    fs::read_to_string(path).expect("docs/reference/limits.md is committed")
}

/// Returns every limit of the code, by its name in the page.
fn limits_of_the_code() -> BTreeMap<String, Bounds> {
    let configured = KEYS.iter().filter(|key| is_limit(key));
    let configured = configured.map(|key| (key.name.clone(), (key.default_text(), bounds(key))));
    let of_settings = limits_of_a_namespace().into_iter().chain(limits_of_a_tenant());
    configured.chain(of_settings).chain(fixed_limits()).collect()
}

fn is_limit(key: &Key) -> bool {
    let is_limit = key.unit.is_some() && !NOT_LIMITS.contains(&key.name.as_str());
    assert!(is_limit || key.section != "limits", "{} needs a unit", key.name);
    is_limit
}

/// Returns the bounds in the sentence of the allowed values.
fn bounds(key: &Key) -> String {
    let from = key.allowed.find("from ").expect("a number has bounds");
    key.allowed[from..].split(", such as").next().expect("a first part").to_owned()
}

fn limits_of_a_namespace() -> Vec<(String, Bounds)> {
    let numbers = |limits: &limits::Limits| json!(Limits::from(limits));
    // A new limit does not compile here, so it needs a row.
    let all = numbers(&limits::Limits {
        schedule_per_second: Some(1),
        deliver_per_second: Some(1),
        max_in_flight: 1,
        max_pending: Some(1),
        max_payload_bytes: 1,
        max_delay: Some(Millis::ZERO),
        max_dead: 1,
        max_retained: 1,
    });
    let defaults = numbers(&limits::Limits::default());
    let text = |field: &str, value: &Value| match value {
        Value::Null => "none".to_owned(),
        Value::Number(bytes) if field.ends_with("_bytes") => bytes_text(bytes.as_u64().unwrap()),
        Value::Number(number) => number.to_string(),
        other => other.as_str().unwrap().to_owned(),
    };
    let row = |scope: &str, field: &String| {
        let probed = |low, high| probed(scope, field, low, high);
        let allowed = match field.as_str() {
            "schedule_per_second" | "deliver_per_second" => probed(1, PER_SECOND_MAX.into()),
            "max_in_flight" => probed(1, IN_FLIGHT_MAX.into()),
            "max_payload_bytes" => probed(0, payload::PAYLOAD_BYTES_HARD),
            "max_pending" | "max_retained" => probed(0, u64::MAX),
            "max_dead" => probed(1, u64::MAX),
            "max_delay" => {
                let is_taken = |text: &str| accepts(scope, field, &json!(text));
                assert!(is_taken("0s") && is_taken("36500d"));
                "from 0s".to_owned()
            }
            other => panic!("{other} needs its bounds here"),
        };
        let default = text(field, &defaults[scope][field]);
        (format!("limits.{scope}.{field}"), (default, allowed))
    };
    let scopes = all.as_object().unwrap().iter();
    scopes
        .flat_map(|(scope, limits)| {
            limits.as_object().unwrap().keys().map(move |field| row(scope, field))
        })
        .collect()
}

fn limits_of_a_tenant() -> Vec<(String, Bounds)> {
    let accepts = |limit: TenantLimit, value: u64| {
        let namespaces = vec![NamespacePattern::all()];
        let limits = TenantLimits::default().with(limit, Some(value));
        let name = TenantName::new("acme").unwrap();
        let (implicit_namespaces, destinations) = (false, None);
        let tenant = Tenant { name, namespaces, limits, implicit_namespaces, destinations };
        tenant.check().is_ok()
    };
    let row = |limit: TenantLimit| {
        let (least, most) = limit.bounds();
        assert!(accepts(limit, least) && accepts(limit, most));
        assert!(!least.checked_sub(1).is_some_and(|less| accepts(limit, less)));
        assert!(!most.checked_add(1).is_some_and(|more| accepts(limit, more)));
        let is_bytes = limit.as_str().ends_with("_bytes");
        let text = |number| if is_bytes { bytes_text(number) } else { number.to_string() };
        let allowed = match most {
            u64::MAX => format!("from {}", text(least)),
            most => format!("from {} to {}", text(least), text(most)),
        };
        (format!("{} of a tenant", limit.as_str()), ("none".to_owned(), allowed))
    };
    TenantLimit::ALL.into_iter().map(row).collect()
}

fn accepts(scope: &str, field: &str, value: &Value) -> bool {
    let limits = json!({ "limits": { scope: { field: value } } });
    let settings = serde_json::from_value::<NamespaceSettings>(limits);
    let defaults = namespace::Settings::default();
    settings.is_ok_and(|settings| settings.over(defaults.clone(), &defaults, &[]).is_ok())
}

/// Returns the bounds as text, if the interface has them.
fn probed(scope: &str, field: &str, low: u64, high: u64) -> String {
    for (number, expected) in [(low, true), (high, true)] {
        assert_eq!(accepts(scope, field, &json!(number)), expected, "{field} {number}");
    }
    for number in [low.checked_sub(1), high.checked_add(1)].into_iter().flatten() {
        assert!(!accepts(scope, field, &json!(number)), "{field} {number}");
    }
    let text =
        |number| if field.ends_with("_bytes") { bytes_text(number) } else { number.to_string() };
    match high {
        u64::MAX => format!("from {}", text(low)),
        high => format!("from {} to {}", text(low), text(high)),
    }
}

fn fixed_limits() -> Vec<(String, Bounds)> {
    let bytes = |most: usize| format!("at most {}", bytes_text(most as u64));
    let most = |most: u64| format!("at most {most}");
    let range = |low: &dyn ToString, high: &dyn ToString| {
        format!("from {} to {}", low.to_string(), high.to_string())
    };
    let day = |at: Timestamp| at.to_string()[..10].to_owned();
    let (retry, settings) = (Exponential::default(), namespace::Settings::default());
    let fixed = |name: &'static str, allowed: String| (name, "fixed".to_owned(), allowed);
    let set = |name: &'static str, default: &dyn ToString, allowed: String| {
        (name, default.to_string(), allowed)
    };
    let rows = [
        fixed("keys of callers", most(duly_store::access::KEYS_MAX as u64)),
        fixed("keys of a tenant", most(duly_store::access::TENANT_KEYS_MAX as u64)),
        fixed("keys of an origin", most(duly_store::access::ORIGIN_KEYS_MAX as u64)),
        fixed("tenants", most(duly_store::access::TENANTS_MAX as u64)),
        fixed("patterns of a tenant", range(&1, &TENANT_LIST_MAX)),
        fixed("hosts of a tenant's destinations", most(TENANT_LIST_MAX as u64)),
        fixed("bytes of a timer id", bytes(ids::TIMER_ID_BYTES_MAX)),
        fixed("characters of a namespace name", most(ids::NAMESPACE_CHARS_MAX as u64)),
        fixed("due time", range(&day(Timestamp::MIN), &day(Timestamp::MAX))),
        fixed("levels of a JSON payload", most(api::payload::DEPTH_MAX as u64)),
        fixed("headers", most(headers::COUNT_MAX as u64)),
        fixed("bytes of all headers", bytes(headers::BYTES_MAX)),
        fixed("tags", most(schedule::TAGS_MAX as u64)),
        fixed("bytes of a tag", bytes(schedule::TAG_BYTES_MAX)),
        fixed("bytes of slot_key", bytes(schedule::SLOT_KEY_BYTES_MAX)),
        fixed("expire_after", format!("from {}", schedule::EXPIRE_AFTER_MIN)),
        fixed("attempts in the history", most(timer::HISTORY_MAX as u64)),
        fixed("bytes of the reason of an attempt", bytes(timer::REASON_BYTES_MAX)),
        fixed("attempts of an imported timer", most(api::moved::ATTEMPTS_MAX.into())),
        fixed("bytes of destination.url", bytes(destination::URL_BYTES_MAX)),
        set(
            "destination.timeout",
            &destination::HTTP_TIMEOUT_DEFAULT,
            range(&destination::HTTP_TIMEOUT_MIN, &destination::HTTP_TIMEOUT_MAX),
        ),
        set("retry.max_attempts", &retry.max_attempts, range(&1, &retry::ATTEMPTS_MAX)),
        set("retry.min_backoff", &retry.min_backoff, range(&Millis::ZERO, &retry::BACKOFF_MAX)),
        set("retry.max_backoff", &retry.max_backoff, range(&Millis::ZERO, &retry::BACKOFF_MAX)),
        fixed("entries of retry.delays", range(&1, &retry::DELAYS_MAX)),
        set("lease", &settings.lease, range(&namespace::LEASE_MIN, &namespace::LEASE_MAX)),
        set("retention", &settings.retention, range(&Millis::ZERO, &namespace::RETENTION_MAX)),
        set("weight", &settings.weight, range(&1, &namespace::WEIGHT_MAX)),
        fixed("signing secrets", most(namespace::SIGNING_SECRETS_MAX as u64)),
        set(
            "fallback.after_attempts",
            &namespace::FALLBACK_ATTEMPTS_DEFAULT,
            range(&1, &namespace::FALLBACK_ATTEMPTS_MAX),
        ),
        set(
            "fallback.after_open",
            &namespace::FALLBACK_OPEN_DEFAULT,
            range(&Millis::ZERO, &namespace::FALLBACK_OPEN_MAX),
        ),
        fixed("operations of a batch", most(api::batch::OPERATIONS_MAX as u64)),
        fixed("bytes of a batch", bytes(crate::service::items::BATCH_BYTES_MAX)),
        fixed("settlements of a call", most(api::settle::SETTLEMENTS_MAX as u64)),
        set(
            "timers of a cancel call",
            &api::filter::CANCELS_MAX,
            range(&1, &api::filter::CANCELS_MAX),
        ),
        fixed(
            "dead letters of a redrive or purge",
            most(api::dead_letters::DEAD_LETTERS_MAX as u64),
        ),
        set("firings of a lease call", &1, range(&1, &api::lease::LEASE_COUNT_MAX)),
        set(
            "bytes of a lease call",
            &bytes_text(api::lease::LEASE_BYTES_DEFAULT),
            range(&1, &bytes_text(api::lease::LEASE_BYTES_MAX)),
        ),
        set(
            "wait of a lease call",
            &Millis::ZERO,
            range(&Millis::ZERO, &api::lease::LEASE_WAIT_MAX),
        ),
        set("entries of a page", &api::timer::PAGE_DEFAULT, range(&1, &query::PAGE_MAX)),
        set("timers of a page of an export", &query::PAGE_MAX, range(&1, &query::PAGE_MAX)),
        set(
            "buckets of a forecast",
            &api::stats::BUCKETS_DEFAULT,
            range(&1, &forecast::BUCKETS_MAX),
        ),
        set(
            "bucket of a forecast",
            &api::stats::BUCKET_DEFAULT,
            range(&forecast::BUCKET_MIN, &forecast::BUCKET_MAX),
        ),
        fixed("bytes of the head of a request", bytes(crate::serve::HEAD_BYTES_MAX as usize)),
        // The default of hyper, which reads the requests.
        fixed("headers of a request", most(100)),
        fixed(
            "calls under way of a connection",
            most(crate::connection::streams::STREAMS_MAX.into()),
        ),
        fixed("calls under way without a key", most(streams::STREAMS_WITHOUT_KEY_MAX.into())),
        fixed("refused calls without a key", most(streams::REFUSED_MAX.into())),
        fixed(
            "connections of HTTP/2 a second after a flood",
            most(1_000 / PACE.as_millis() as u64),
        ),
        fixed("frames without a request", most(u64::from(crate::connection::FRAMES_MAX))),
        fixed("certificates of a peer", most(chain::INTERMEDIATES_MAX as u64 + 1)),
        fixed("bytes of the certificates of a peer", bytes(chain::CHAIN_BYTES_MAX)),
        fixed("signatures of the certificates of a peer", most(chain::SIGNATURES_MAX as u64)),
        fixed("streams of consumers", most(crate::grpc::CONSUMERS_MAX as u64)),
    ];
    rows.into_iter().map(|(name, default, allowed)| (name.to_owned(), (default, allowed))).collect()
}

/// Returns the errors of a page.
fn complaints(page: &str) -> Vec<String> {
    let mut missing = limits_of_the_code();
    let mut complaints = Vec::new();
    let mut expect = |name: &str, is_so: bool, what: String| {
        if !is_so {
            complaints.push(format!("{name}: {what}"));
        }
    };
    let rows = page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| Limit"));
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [name, scope, default, allowed, kept, past] = cells[..] else {
            expect(row, false, "it does not have six cells".to_owned());
            continue;
        };
        let name = name.replace('`', "");
        match missing.remove(&name) {
            Some((is_default, is_allowed)) => {
                expect(&name, default == is_default, format!("the default is {is_default}"));
                expect(&name, allowed == is_allowed, format!("allowed is {is_allowed}"));
            }
            None => expect(&name, false, "the code has no such limit".to_owned()),
        }
        expect(&name, SCOPES.contains(&scope), format!("{scope} is no scope"));
        let states_its_bound = kept == "exact" || kept.starts_with("exact; ");
        let states_its_bound = states_its_bound || kept.starts_with("approximate: ");
        expect(&name, states_its_bound, format!("{kept} states no bound"));
        expect(&name, !past.is_empty(), "nothing is said of what comes past it".to_owned());
        let words: Vec<&str> = past.split([' ', ',', ';', '(', ')']).collect();
        for (status, code) in words.iter().zip(words.iter().skip(1)) {
            let Ok(status) = status.parse::<u16>() else { continue };
            let known =
                Code::ALL.into_iter().find(|known| *code == format!("`{}`", known.as_str()));
            let fits = known.is_some_and(|known| known.http_status() == status);
            // The HTTP library refuses a head that is too long, without a body that could have a code.
            let fits = fits || (status == 431 && *code == "without");
            expect(&name, fits, format!("{status} is not followed by its code"));
        }
    }
    for name in missing.into_keys() {
        expect(&name, false, "the page has no row".to_owned());
    }
    complaints
}

#[test]
fn the_page_of_limits_says_what_the_code_has() {
    let complaints = complaints(&page());
    assert!(complaints.is_empty(), "docs/reference/limits.md:\n{}", complaints.join("\n"));
}

#[test]
fn a_wrong_row_of_the_page_of_limits_is_noticed() {
    let page = page();
    let row = |name: &str| {
        let start = format!("| `{name}` |");
        page.lines().find(|line| line.starts_with(&start)).expect("a row").to_owned()
    };
    let (workers, pending) = (row("delivery.workers_max"), row("limits.namespace.max_pending"));
    let batch = page.lines().find(|line| line.starts_with("| operations of a batch |")).unwrap();
    for (from, to, expected) in [
        (&*workers, workers.replace("| 1024 |", "| 1025 |"), "workers_max: the default is 1024"),
        (&workers, workers.replace("100000", "100001"), "workers_max: allowed is from 1 to 100000"),
        (&workers, String::new(), "workers_max: the page has no row"),
        (&workers, workers.replace("workers_max", "workers"), "the code has no such limit"),
        (&pending, pending.replace("429", "400"), "max_pending: 400 is not followed by its code"),
        (&pending, pending.replace("| exact", "| nearly"), "states no bound"),
        (batch, batch.replace("10000", "9999"), "operations of a batch: allowed is at most 10000"),
    ] {
        assert_ne!(from, to, "{expected}");
        let complaints = complaints(&page.replace(from, &to));
        assert!(complaints.iter().any(|it| it.contains(expected)), "{expected}: {complaints:?}");
    }
}
