//! Tests that the webhook benchmark has the right counts. No test checks a time.

use duly_bench::webhooks::{self, Options};

#[test]
fn deliveries_are_confirmed_and_have_a_baseline() {
    for secrets in [0, 2] {
        let report = webhooks::run(&Options {
            deliveries: 501,
            in_flight: 7,
            payload_bytes: 128,
            secrets,
            runs: 2,
            program: Some(env!("CARGO_BIN_EXE_duly-bench").into()),
        })
        .expect("a report");
        let row = report.find("webhooks").expect("measured");
        assert_eq!(row.items, 501);
        for name in ["per_second", "cpu", "p50", "p99", "max"] {
            let figure = row.figure(name).expect(name);
            assert_eq!(figure.rounds.len(), 2, "{name}");
            assert_eq!(figure.floor.as_ref().expect(name).rounds.len(), 2, "{name}");
        }
        let target = row.figure("per_second").and_then(|figure| figure.target.as_ref());
        assert_eq!(target.expect("asked for").text, "≥ 20 k/s");
    }
}
