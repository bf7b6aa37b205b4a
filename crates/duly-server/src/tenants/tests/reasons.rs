//! Reasons of settlements, which the store keeps with a pending timer.

use super::*;

#[tokio::test]
async fn p10_no_reason_makes_a_tenant_exceed_its_bytes() {
    const TIMERS: usize = 20;
    let acme = || tenant("acme", &["acme-*"], TenantLimits::default());
    let server = server(Tenant { implicit_namespaces: true, ..acme() }).await;
    let admin = presented(1);
    let ask = async |path: &str, body: serde_json::Value| {
        let path = format!("/v1/namespaces/acme-a/{path}");
        let call = ("POST", &*path);
        let (status, response) =
            call_http(&server.app, call, Some(&admin), &body.to_string()).await;
        assert!(status.is_success(), "{path}: {status} {response}");
        response
    };
    for n in 0..TIMERS {
        ask("timers", json!({"id": n.to_string(), "delay": 0})).await;
    }
    let most = pending_bytes(&server).await + 15_000;
    let limits = limits(&[(TenantLimit::MaxPendingBytes, most)]);
    let put = AccessChange::PutTenant(Box::new(Tenant { limits, ..acme() }));
    let records = server.app.auth.records();
    server
        .app
        .auth
        .use_records(records.changed(put, ChangeOrigin::Offline, Timestamp::MIN).unwrap());
    let state = Arc::clone(server.app.auth.tenants().of_namespace("acme-a").unwrap());
    let reason = "x".repeat(5_000);
    for round in 0..3 {
        // As once a second.
        crate::counting::count_tenant(&*server.app.store, &state, &*server.app.clock).await;
        let leased = ask("lease", json!({"max": TIMERS})).await;
        let firings = leased["firings"].as_array().unwrap();
        assert_eq!(firings.len(), TIMERS, "round {round}");
        let retry = json!({"after": "0s", "reason": reason});
        let settlements: Vec<_> =
            firings.iter().map(|it| json!({"token": it["token"], "retry": retry})).collect();
        ask("settle", json!({ "settlements": settlements })).await;
        let bytes = pending_bytes(&server).await;
        assert!((most - 2_000..=most).contains(&bytes), "round {round}: {bytes} of {most}");
    }
}
