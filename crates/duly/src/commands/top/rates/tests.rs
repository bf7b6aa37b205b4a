use super::*;

fn all(_: &Series) -> bool {
    true
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9
}

#[test]
fn growth_includes_series_with_new_labels() {
    let before = Metrics::parse("a_total{x=\"1\"} 5\nb_total 9\n");
    let now = Metrics::parse("a_total{x=\"1\"} 8\na_total{x=\"2\"} 4\nb_total 9\n");
    let between = Comparison::new(&before, &now);
    assert!(!between.has_restarted);
    assert!(close(between.growth("a_total", all), 7.0));
    assert!(close(between.growth("a_total", |series| series.label("x") == Some("2")), 4.0));
    assert!(close(between.growth("b_total", all), 0.0));
    assert!(close(between.growth("c_total", all), 0.0));
}

#[test]
fn after_a_restart_counts_are_recent_and_rates_not_negative() {
    // The other counter is above its earlier value, so only the first one reveals the restart.
    let before = Metrics::parse("a_total 100\nb_total 3\n");
    for now in ["a_total 2\nb_total 10\n", "b_total 10\n"] {
        let now = Metrics::parse(now);
        let between = Comparison::new(&before, &now);
        assert!(between.has_restarted);
        assert!(between.growth("a_total", all) <= 2.0);
        assert!(close(between.growth("b_total", all), 10.0));
    }
}

#[test]
fn a_gauge_that_falls_is_no_restart() {
    let (before, now) =
        (Metrics::parse("duly_deployment_due 5"), Metrics::parse("duly_deployment_due 1"));
    assert!(!Comparison::new(&before, &now).has_restarted);
}

#[test]
fn quantiles_are_those_of_the_interval_over_all_labels() {
    let text = |counts: [(&str, [u32; 3]); 2]| {
        let mut text = String::new();
        for (kind, counts) in counts {
            for (le, count) in ["0.001", "0.01", "+Inf"].iter().zip(counts) {
                text += &format!("l_bucket{{kind=\"{kind}\",le=\"{le}\"}} {count}\n");
            }
        }
        Metrics::parse(&text)
    };
    let before = text([("push", [50, 50, 90]), ("pull", [0, 0, 0])]);
    let now = text([("push", [100, 100, 140]), ("pull", [0, 50, 50])]);
    let quantiles = Comparison::new(&before, &now).quantiles("l").expect("100 came in");
    assert_eq!((quantiles.count, quantiles.max_ms), (100, Some(10.0)));
    assert!(close(quantiles.p50_ms, 1.0), "{quantiles:?}");
    assert!(close(quantiles.p99_ms, 1.0 + 9.0 * 0.98), "{quantiles:?}");
    assert_eq!(Comparison::new(&now, &now).quantiles("l"), None, "nothing came in");
    assert_eq!(Comparison::new(&before, &now).quantiles("m"), None, "no such histogram");
}

#[test]
fn values_above_the_last_bound_count_as_the_bound() {
    let quantiles = of_buckets(&[(0.1, 1.0), (10.0, 1.0), (f64::INFINITY, 4.0)]);
    let quantiles = quantiles.expect("4 came in");
    assert_eq!(quantiles.max_ms, None);
    assert!(close(quantiles.p99_ms, 10_000.0), "{quantiles:?}");
}
