//! The 404 of a path that does not exist: the path that its caller is likely to have meant.

use duly_core::{Code, invalid::shorten, similar_name::most_similar};
use http::Uri;

use super::Problem;
use crate::operations::{HEALTHZ, METRICS, READYZ, routes};

/// Path of the description of the interface.
const OPENAPI: &str = "/openapi.json";

/// Words of other systems, and the paths that they mean here.
const OTHER_WORDS: [(&str, &[&str]); 4] = [
    (
        HEALTHZ,
        &["health", "healthcheck", "health-check", "livez", "live", "liveness", "ping", "status"],
    ),
    (READYZ, &["ready", "readiness"]),
    (METRICS, &["prometheus"]),
    (OPENAPI, &["docs", "doc", "swagger", "openapi", "api-docs", "swagger.json", "openapi.yaml"]),
];

/// Words for dead letters, which are a state of timers.
const DEAD: [&str; 5] = ["dead", "dead-letters", "dead_letters", "deadletters", "dlq"];

/// Words for the timers of a namespace as the target of a schedule.
const SCHEDULE: [&str; 6] = ["schedule", "schedules", "jobs", "tasks", "messages", "events"];

/// Most parts of a path that are compared with the routes.
const PARTS_MAX: usize = 16;
/// Longest path, in bytes, that is shown as a cure; in place of a longer one its route is shown.
const SHOWN_BYTES_MAX: usize = 256;

/// Responds to a call of a path that does not exist.
pub(super) async fn unknown_path(uri: Uri) -> Problem {
    let seen = shorten(uri.path());
    let detail = match cure(uri.path()) {
        Some(cure) => format!("there is nothing at {seen}: {cure}"),
        None => format!("there is nothing at {seen}: GET {OPENAPI} lists every path"),
    };
    Problem::new(Code::NotFound, detail)
}

/// Returns what a caller of a path that does not exist should do.
fn cure(path: &str) -> Option<String> {
    let parts: Vec<_> = path.split('/').filter(|part| !part.is_empty()).take(PARTS_MAX).collect();
    if parts.is_empty() {
        let version = env!("CARGO_PKG_VERSION");
        return Some(format!(
            "this is Duly {version}; GET {OPENAPI} lists every path, GET {HEALTHZ} is for health checks"
        ));
    }
    let meant = |path: &str| Some(format!("did you mean {path}?"));
    if let [word] | [_, word] = parts[..]
        && (parts.len() == 1 || parts[0] == "api" || is_version(parts[0]))
    {
        let word = word.to_ascii_lowercase();
        let known = OTHER_WORDS.iter().find(|(_, words)| words.contains(&&*word));
        if let Some((path, _)) = known {
            return meant(path);
        }
    }
    let is_cut = parts.len() == PARTS_MAX;
    let versionless = match &parts[..] {
        ["api", version, rest @ ..] | [version, rest @ ..] if is_version(version) => rest,
        ["api", rest @ ..] => rest,
        all => all,
    };
    let other_version = parts.iter().take(2).find(|part| is_version(part) && **part != "v1");
    let only = other_version.map(|_| {
        format!("there is only version 1: paths begin with /v1; GET {OPENAPI} lists every path")
    });
    if versionless.is_empty() && only.is_some() {
        return only;
    }
    // A part that was left out, or one too many, at the beginning.
    let mut candidates = vec![parts.clone(), [&["v1"][..], versionless].concat()];
    // The paths of the server itself have no version.
    candidates.push(versionless.to_vec());
    candidates.push([&["v1", "namespaces", "{namespace}"][..], versionless].concat());
    if versionless.len() > 1 {
        candidates.push([&["v1", "namespaces"][..], versionless].concat());
    }
    let same = |known: &str, it: &str| known.eq_ignore_ascii_case(it);
    if let Some(path) = candidates.iter().find_map(|parts| matching(parts, same)) {
        return meant(&path);
    }
    for parts in &candidates {
        if let ["v1", "namespaces", namespace, "timers", id @ ..] = &parts[..]
            && let [.., last] = id
        {
            // The last part is an action on the timer, or a part of its id.
            let (id, action) = match last {
                &"fire" | &"forget" => (&id[..id.len() - 1], format!("/{last}")),
                _ => (id, String::new()),
            };
            let id = id.join("%2F");
            let path = format!("/v1/namespaces/{namespace}/timers/{id}{action}");
            let route = "/v1/namespaces/{namespace}/timers/{id}";
            let shown = if is_cut { route.to_owned() } else { short(path, route) };
            return Some(format!("did you mean {shown}? A / of an id is written %2F"));
        }
        if let ["v1", "namespaces", namespace, word] = parts[..]
            && DEAD.contains(&word)
        {
            let path = format!("/v1/namespaces/{namespace}/timers?state=dead");
            let shown = short(path, "/v1/namespaces/{namespace}/timers?state=dead");
            return Some(format!("dead letters are timers: GET {shown} lists them"));
        }
        if let ["v1", "namespaces", namespace, word] = parts[..]
            && SCHEDULE.contains(&word)
        {
            let path = format!("/v1/namespaces/{namespace}/timers");
            let shown = short(path, "/v1/namespaces/{namespace}/timers");
            return Some(format!("POST {shown} schedules a timer"));
        }
    }
    let is_similar = |known: &str, it: &str| most_similar(it, [known].into_iter()).is_some();
    let similar = candidates.iter().find_map(|parts| matching(parts, is_similar));
    similar.and_then(|path| meant(&path)).or(only)
}

/// Returns `true` for the part of a path that names a version of the interface.
fn is_version(part: &str) -> bool {
    let digits = part.strip_prefix(['v', 'V']).unwrap_or_default();
    (1..=4).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns the path of the route whose own parts are these, as `is_same` compares them.
fn matching(parts: &[&str], is_same: impl Fn(&str, &str) -> bool) -> Option<String> {
    routes().find_map(|route| {
        let known: Vec<_> = route.split('/').skip(1).collect();
        let is_named = |part: &str| part.starts_with('{');
        let mut pairs = known.iter().zip(parts);
        let fits = known.len() == parts.len()
            && pairs.all(|(known, part)| is_named(known) || is_same(known, part));
        fits.then(|| {
            let pairs = known.iter().zip(parts);
            let path = pairs.map(|(known, part)| if is_named(known) { *part } else { *known });
            short(format!("/{}", path.collect::<Vec<_>>().join("/")), route)
        })
    })
}

/// Returns a path, or its route if the path is long.
fn short(path: String, route: &str) -> String {
    if path.len() <= SHOWN_BYTES_MAX { path } else { route.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, expected: &str) {
        assert_eq!(cure(path).as_deref(), Some(expected), "{path}");
    }

    #[test]
    fn every_route_is_found_without_version_and_with_a_slash_more() {
        for route in routes() {
            let path = route.replace("{namespace}", "orders").replace("{id}", "a%2Fb");
            let path = path.replace("{tenant}", "acme");
            let meant = format!("did you mean {path}?");
            check(&format!("{path}/"), &meant);
            check(&format!("/{path}"), &meant);
            if let Some(below) = path.strip_prefix("/v1") {
                check(below, &meant);
                check(&format!("{below}/"), &meant);
                check(&format!("/api{path}"), &meant);
                check(&format!("/api{below}"), &meant);
                for version in ["/V1", "/v0", "/v2", "/v10", "/api/v2"] {
                    check(&path.replacen("/v1", version, 1), &meant);
                }
            }
        }
    }

    #[test]
    fn the_path_that_was_meant_is_named() {
        for (path, meant) in [
            ("/v1/healthz", "/healthz"),
            ("/v1/readyz/", "/readyz"),
            ("/api/v1/metrics", "/metrics"),
            ("/v1/openapi.json", "/openapi.json"),
            ("/health", "/healthz"),
            ("/Health/", "/healthz"),
            ("/v1/health", "/healthz"),
            ("/livez", "/healthz"),
            ("/healtz", "/healthz"),
            ("/ready", "/readyz"),
            ("/metric", "/metrics"),
            ("/docs", "/openapi.json"),
            ("/swagger", "/openapi.json"),
            ("/openapi", "/openapi.json"),
            ("/v1/namespace/orders/timers", "/v1/namespaces/orders/timers"),
            ("/v1/namespaces/orders/timer", "/v1/namespaces/orders/timers"),
            ("/v1/namespaces/orders/timer/a", "/v1/namespaces/orders/timers/a"),
            ("/v1/orders/timers", "/v1/namespaces/orders/timers"),
            ("/v1/timers", "/v1/namespaces/{namespace}/timers"),
            ("/timers", "/v1/namespaces/{namespace}/timers"),
            ("/v2/timers", "/v1/namespaces/{namespace}/timers"),
            ("/v2/timers/a", "/v1/namespaces/{namespace}/timers/a"),
            ("/v2/orders/timers", "/v1/namespaces/orders/timers"),
            ("/v2/health", "/healthz"),
            ("/v1/tenant/acme", "/v1/tenants/acme"),
        ] {
            check(path, &format!("did you mean {meant}?"));
        }
        let timers = "/v1/namespaces/orders/timers";
        let encoded = |id: &str| format!("did you mean {timers}/{id}? A / of an id is written %2F");
        check(&format!("{timers}/a/b"), &encoded("a%2Fb"));
        check(&format!("{timers}/a/b/c%20d/"), &encoded("a%2Fb%2Fc%20d"));
        check(&format!("{timers}/a/b/fire"), &encoded("a%2Fb/fire"));
        check("/namespaces/orders/timers/a/b", &encoded("a%2Fb"));
        let dead = format!("dead letters are timers: GET {timers}?state=dead lists them");
        check("/v1/namespaces/orders/dead", &dead);
        check("/v1/namespaces/orders/dlq/", &dead);
        let schedule = format!("POST {timers} schedules a timer");
        check("/v1/namespaces/orders/schedule", &schedule);
        check("/namespaces/orders/jobs/", &schedule);
        for path in ["/v2", "/v2/", "/v2/a/b/c/d", "/api/v3/x"] {
            check(
                path,
                "there is only version 1: paths begin with /v1; GET /openapi.json lists every path",
            );
        }
        assert!(cure("/").is_some_and(|it| it.starts_with("this is Duly ")));
        for path in ["/favicon.ico", "/wp-admin/setup.php", "/v1/keys/a/b/c", "/a/b/c/d/e/f/g"] {
            assert_eq!(cure(path), None, "{path}");
        }
    }

    #[test]
    fn p10_a_cure_is_short_whatever_the_path() {
        let timers = "/v1/namespaces/orders/timers";
        let long = "x".repeat(60_000);
        check(&format!("{timers}/{long}/"), "did you mean /v1/namespaces/{namespace}/timers/{id}?");
        let slashes = "/a".repeat(30_000);
        for path in [format!("{timers}/{long}{slashes}"), format!("{timers}{slashes}")] {
            check(
                &path,
                "did you mean /v1/namespaces/{namespace}/timers/{id}? A / of an id is written %2F",
            );
        }
        assert_eq!(cure(&slashes), None);
    }
}
