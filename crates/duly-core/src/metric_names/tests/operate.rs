//! Checks the alert rules and the dashboard of `docs/operate`: every metric, label and value that they name
//! exists, and every alert leads to a page with the remedy.

use std::{collections::BTreeSet, fs, path::PathBuf};

use serde_json::Value;

use super::{
    super::{ALL, Kind, Label, Metric},
    promql::{check_groups, check_prose, check_templates, metrics_in},
};

fn read(path: &str) -> String {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    fs::read_to_string(root.join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// An alert of the rules, by its lines: the file has each field on its own line.
struct Alert {
    name: String,
    text: String,
}

impl Alert {
    fn all() -> Vec<Self> {
        let rules = read("docs/operate/prometheus-rules.yaml");
        let alert = |text: &str| {
            let name = text.lines().next().unwrap().trim().to_owned();
            Self { name, text: text.to_owned() }
        };
        rules.split("- alert:").skip(1).map(alert).collect()
    }

    /// Returns the value of a field.
    fn field(&self, field: &str) -> &str {
        let start = format!("{field}:");
        let line = self.text.lines().find_map(|line| line.trim().strip_prefix(&start));
        let value = line.unwrap_or_else(|| panic!("{} lacks {field}", self.name)).trim();
        value.strip_prefix(['"', '\'']).map_or(value, |value| &value[..value.len() - 1])
    }
}

#[test]
fn every_alert_uses_existing_metrics() {
    let alerts = Alert::all();
    let names: BTreeSet<_> = alerts.iter().map(|alert| &alert.name).collect();
    assert!(alerts.len() >= 15, "only {} alerts are found", alerts.len());
    assert_eq!(names.len(), alerts.len(), "a name stands twice: {names:?}");
    for alert in &alerts {
        let expr = alert.field("expr");
        let metrics = metrics_in(&alert.name, expr);
        let is_on_up = expr.starts_with("up{");
        assert!(is_on_up || !metrics.is_empty(), "{} is on no metric of Duly", alert.name);
        check_groups(&alert.name, expr, &metrics);
        for field in ["summary", "description"] {
            check_templates(&alert.name, alert.field(field), "{{ $labels.", &metrics);
        }
    }
    // Comments and descriptions are searched as well.
    check_prose("the rules", &read("docs/operate/prometheus-rules.yaml"));
}

/// Each node of a deployment reports the same number, so neither a sum nor one value per node is right.
#[test]
fn deployment_metrics_are_not_summed_over_nodes() {
    const OF_ALL: &str = "duly_deployment_";
    let is_of_all = |expr: &str| metrics_in("x", expr).iter().any(|it| it.name.starts_with(OF_ALL));
    for alert in Alert::all().iter().filter(|alert| !alert.field("expr").starts_with("up{")) {
        let expr = alert.field("expr");
        if is_of_all(expr) {
            assert!(expr.starts_with("max by (job"), "{}: {expr}", alert.name);
        }
        for field in ["summary", "description"] {
            let names_node = alert.field(field).contains("$labels.instance");
            assert!(!(is_of_all(expr) && names_node), "{} names a node", alert.name);
        }
    }
    let board: Value = serde_json::from_str(&read("docs/operate/grafana-board.json")).unwrap();
    for panel in panels(&board) {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let expr = target["expr"].as_str().unwrap();
            assert!(!is_of_all(expr) || expr.starts_with("max("), "{}: {expr}", panel["title"]);
        }
    }
}

#[test]
fn every_alert_links_to_a_runbook_section() {
    for alert in Alert::all() {
        assert!(["page", "ticket"].contains(&alert.field("severity")), "{}", alert.name);
        let (page, anchor) = alert.field("runbook").split_once('#').unwrap();
        assert!(has_anchor(page, anchor), "{}: {page} has no {anchor}", alert.name);
    }
}

fn has_anchor(page: &str, anchor: &str) -> bool {
    read(page).lines().filter_map(anchor_of).any(|it| it == anchor)
}

/// Returns the anchor of a heading, as GitHub makes it.
fn anchor_of(line: &str) -> Option<String> {
    let heading = line.strip_prefix('#')?.trim_start_matches('#').strip_prefix(' ')?;
    let lower = heading.to_lowercase();
    let kept = lower.chars().filter(|c| c.is_alphanumeric() || "-_ ".contains(*c));
    Some(kept.collect::<String>().trim().replace(' ', "-"))
}

#[test]
fn operator_pages_name_only_existing_metrics() {
    for page in
        ["monitoring", "sizing", "troubleshooting", "errors", "install", "backup", "upgrade"]
    {
        let text = read(&format!("docs/operate/{page}.md"));
        // A log filter names a crate.
        for span in text.split('`').skip(1).step_by(2).filter(|span| !span.contains("=debug")) {
            check_prose(page, span);
        }
    }
}

#[test]
fn monitoring_page_lists_every_metric() {
    let page = read("docs/operate/monitoring.md");
    let wanted: Vec<_> = ALL.iter().map(row).collect();
    let found: Vec<_> = page.lines().filter(|line| line.starts_with("| `duly_")).collect();
    assert_eq!(found, wanted, "the rows should be:\n{}", wanted.join("\n"));
}

/// Returns a metric as a row of the table.
fn row(metric: &Metric) -> String {
    let kind = match metric.kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram => "histogram",
    };
    let label = |label: &Label| match label.values {
        [] => format!("`{}`", label.name),
        values => format!("`{}` ({})", label.name, values.join(", ")),
    };
    let labels: Vec<_> = metric.labels.iter().map(label).collect();
    let help = metric.help.split(" Label").next().unwrap();
    format!("| `{}` | {kind} | {} | {help} |", metric.name, labels.join("; "))
}

/// Returns the panels, including those inside rows.
fn panels(board: &Value) -> Vec<Value> {
    let mut found = Vec::new();
    for panel in board["panels"].as_array().unwrap() {
        found.push(panel.clone());
        found.extend(panel["panels"].as_array().into_iter().flatten().cloned());
    }
    found
}

#[test]
fn every_dashboard_panel_uses_existing_metrics() {
    let board: Value = serde_json::from_str(&read("docs/operate/grafana-board.json")).unwrap();
    let mut shown = BTreeSet::new();
    let mut ids = BTreeSet::new();
    for panel in panels(&board) {
        let title = panel["title"].as_str().unwrap();
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}: its id stands twice");
        if panel["type"] == "row" {
            continue;
        }
        assert!(panel["description"].as_str().is_some_and(|it| !it.is_empty()), "{title}");
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{title}");
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty(), "{title} shows nothing");
        for target in targets {
            let expr = target["expr"].as_str().unwrap();
            let metrics = metrics_in(title, expr);
            assert!(!metrics.is_empty(), "{title}: {expr} is on no metric of Duly");
            check_groups(title, expr, &metrics);
            check_templates(title, target["legendFormat"].as_str().unwrap(), "{{", &metrics);
            shown.extend(metrics.iter().map(|metric| metric.name));
        }
    }
    // The metrics that every dashboard must show.
    for name in [
        "duly_deployment_due",
        "duly_deployment_oldest_due_seconds",
        "duly_lateness_seconds",
        "duly_attempts_total",
        "duly_lanes",
        "duly_breakers",
        "duly_fallback_breakers",
        "duly_lanes_overflow",
        "duly_unreadable",
        "duly_namespace_pending",
        "duly_namespace_dead",
        "duly_namespace_oldest_due_seconds",
        "duly_namespace_lateness_seconds",
        "duly_namespace_refusals_total",
        "duly_tenant_use_ratio",
        "duly_commit_seconds",
        "duly_disk_free_bytes",
        "duly_resident_bytes",
        "duly_index_bytes",
        "duly_rewrite_backlog_bytes",
        "duly_replay_bytes",
        "duly_watchdog_restarts_total",
        "duly_deployment_dead",
    ] {
        assert!(shown.contains(name), "the board does not show {name}");
    }
}
