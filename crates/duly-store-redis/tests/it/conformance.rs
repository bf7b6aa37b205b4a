//! The conformance suite on one server, and on a Cluster.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::{cluster::Cluster, harness::RedisHarness};

mod single {
    use super::*;
    duly_store::conformance_tests!(RedisHarness::new);
}

/// One Cluster for all cases, empty at the beginning of each.
#[test]
fn the_suite_on_a_cluster() {
    let cluster = Arc::new(Mutex::new(Cluster::start(3, 0)));
    let report = duly_store::conformance::run_all(|| {
        cluster.lock().empty();
        let servers: Arc<Mutex<Cluster>> = Arc::clone(&cluster);
        RedisHarness::on(servers)
    });
    assert_eq!(report.failed, []);
    assert!(report.passed.len() > 150, "{} passed", report.passed.len());
}
