//! A server whose store keeps no audit log.

use std::sync::Arc;

use duly_server::http::ImplicitNamespaces;
use duly_store::{AuditStore, Store, conformance::StandIn};

use crate::bench::Bench;

#[derive(Debug)]
struct StoreWithoutLog(Arc<dyn Store>);

impl StandIn for StoreWithoutLog {
    fn behind(&self) -> &dyn Store {
        &*self.0
    }

    fn audit(&self) -> Option<&dyn AuditStore> {
        None
    }
}

#[tokio::test]
async fn the_audit_log_is_refused_where_the_store_keeps_none() {
    let wrap = |store| Arc::new(StoreWithoutLog(store)) as Arc<dyn Store>;
    let without = Bench::on(ImplicitNamespaces::Create, 1 << 20, wrap);
    let problem = without.call("GET", "/v1/audit", "").await.problem("permission_denied");
    assert!(problem["detail"].as_str().expect("text").contains("no audit log"), "{problem}");
    let with = Bench::on(ImplicitNamespaces::Create, 1 << 20, |store| store);
    with.call("GET", "/v1/audit", "").await.expect(200);
}
