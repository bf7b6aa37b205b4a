//! Finds Duly's metrics in a PromQL expression or in a text with templates, and compares them with the
//! table. It parses no more of the language than that needs.

use super::super::{Kind, Metric, find};

/// Labels of every target, and the label of the buckets of a histogram.
const COMMON: [&str; 3] = ["job", "instance", "le"];

/// Returns every metric that the text names.
///
/// # Panics
/// When a metric does not exist, or does not have a label or value that the text uses.
#[track_caller]
pub(super) fn metrics_in(place: &str, text: &str) -> Vec<&'static Metric> {
    let found = names_in(text);
    found.map(|(name, rest)| check_matchers(place, metric(place, name), rest)).collect()
}

/// Does the same for prose, in which a histogram has its own name.
#[track_caller]
pub(super) fn check_prose(place: &str, text: &str) {
    for (name, rest) in names_in(text) {
        let metric = find(name).unwrap_or_else(|| metric(place, name));
        check_matchers(place, metric, rest);
    }
}

/// Returns the names that begin with the prefix of Duly's metrics, each with the text after it.
fn names_in(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.match_indices("duly_").filter_map(move |(at, _)| {
        let is_inside = text[..at].chars().next_back().is_some_and(is_name);
        let rest = &text[at..];
        let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        let (name, rest) = rest.split_at(end);
        // The bare prefix, as in a pattern, is no metric name; nor is a crate name, as in the log, or the file of
        // a package.
        let begins = name["duly_".len()..].starts_with(|c: char| c.is_ascii_lowercase());
        let is_metric = !is_inside && begins && !rest.starts_with("::");
        is_metric.then_some((name, rest))
    })
}

fn check_matchers(place: &str, metric: &'static Metric, rest: &str) -> &'static Metric {
    if let Some(matchers) = rest.strip_prefix('{') {
        let matchers = matchers.split('}').next().unwrap();
        let matchers = matchers.split("\",").filter(|it| !it.is_empty());
        matchers.for_each(|it| check_matcher(place, metric, it));
    }
    metric
}

/// Returns a metric by the name of one of its series.
fn metric(place: &str, series: &str) -> &'static Metric {
    let of_histogram = ["_bucket", "_sum", "_count"].iter().find_map(|end| {
        let metric = find(series.strip_suffix(end)?)?;
        (metric.kind == Kind::Histogram).then_some(metric)
    });
    let of_its_own = || find(series).filter(|metric| metric.kind != Kind::Histogram);
    of_histogram
        .or_else(of_its_own)
        .unwrap_or_else(|| panic!("{place}: there is no series {series}"))
}

/// Returns the matchers: `label="value"`, `label=~"a|b"` and their negations.
fn check_matcher(place: &str, metric: &Metric, matcher: &str) {
    let end = matcher.find(['=', '!']).unwrap_or(matcher.len());
    let label = matcher[..end].trim();
    if COMMON.contains(&label) {
        return;
    }
    let values = matcher[end..].trim_start_matches(['=', '!', '~', '"']).trim_end_matches('"');
    if values.contains(['.', '$', '*']) {
        let is_there = metric.labels.iter().any(|it| it.name == label);
        assert!(is_there, "{place}: {} has no label {label}", metric.name);
        return;
    }
    for value in values.split('|') {
        assert!(metric.allows(label, value), "{place}: {} has no {label}={value}", metric.name);
    }
}

/// Checks the labels by which an expression groups.
#[track_caller]
pub(super) fn check_groups(place: &str, expr: &str, metrics: &[&Metric]) {
    for (at, _) in expr.match_indices("by (").chain(expr.match_indices("by(")) {
        let labels = expr[at..].split_once('(').unwrap().1.split(')').next().unwrap();
        for label in labels.split(',') {
            check_label(place, label.trim(), metrics);
        }
    }
}

/// Checks the labels that a text with templates shows: each stands between `opening` and `}}`.
#[track_caller]
pub(super) fn check_templates(place: &str, text: &str, opening: &str, metrics: &[&Metric]) {
    for (at, _) in text.match_indices(opening) {
        let label = text[at + opening.len()..].split("}}").next().unwrap();
        check_label(place, label.split('|').next().unwrap().trim(), metrics);
    }
}

fn check_label(place: &str, label: &str, metrics: &[&Metric]) {
    let has = |metric: &&Metric| metric.labels.iter().any(|it| it.name == label);
    let is_known = COMMON.contains(&label) || metrics.iter().any(has);
    assert!(is_known, "{place}: no metric of it has the label {label}");
}

#[test]
fn named_metrics_are_found_with_their_labels() {
    let expr = r#"sum by (le) (rate(duly_lateness_seconds_bucket{kind="push",attempt=~"first|retry",job="d"}[5m])) > duly_deployment_due"#;
    let found = metrics_in("x", expr);
    let names: Vec<_> = found.iter().map(|metric| metric.name).collect();
    assert_eq!(names, ["duly_lateness_seconds", "duly_deployment_due"]);
    check_groups("x", "sum by (le, kind) (x) / max by(instance) (y)", &found);
    let text = "{{ $labels.instance }} {{ $labels.kind | title }}";
    check_templates("x", text, "{{ $labels.", &found);
}

#[test]
fn unknown_metrics_are_reported() {
    let is_refused =
        |check: &dyn Fn()| std::panic::catch_unwind(std::panic::AssertUnwindSafe(check)).is_err();
    for expr in [
        "duly_dues",
        "duly_lateness_seconds",
        "duly_due_bucket",
        "duly_due_total",
        r#"duly_breakers{state="ajar"}"#,
        r#"duly_breakers{state=~"open|ajar"}"#,
        r#"duly_breakers{status="open"}"#,
        r#"duly_http_requests_total{code=~"5.."}"#,
    ] {
        assert!(is_refused(&|| drop(metrics_in("x", expr))), "{expr}");
    }
    let due = metrics_in("x", "duly_deployment_due");
    assert!(is_refused(&|| check_groups("x", "sum by (state) (duly_deployment_due)", &due)));
    assert!(is_refused(&|| check_templates("x", "{{state}}", "{{", &due)));
}
