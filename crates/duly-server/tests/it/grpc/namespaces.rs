//! Every call on namespaces.

use duly_api::v1;
use tonic_types::StatusExt;

use super::server::{NAMESPACE, Server, lasting, named};

#[tokio::test]
async fn a_namespace_lives_its_whole_life_over_grpc() {
    let server = Server::start().await;
    let mut namespaces = server.namespaces();
    let name = || NAMESPACE.to_owned();
    let settings = v1::NamespaceSettings {
        lease: Some(lasting(5_000)),
        weight: Some(3),
        signing_secrets: Some(v1::SigningSecrets {
            secrets: vec!["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".into()],
        }),
        limits: Some(v1::Limits {
            lane: Some(v1::LaneLimits { max_in_flight: Some(7), ..v1::LaneLimits::default() }),
            namespace: Some(v1::NamespaceLimits {
                max_pending: Some(9),
                ..v1::NamespaceLimits::default()
            }),
        }),
        ..v1::NamespaceSettings::default()
    };
    let request = v1::PutNamespaceRequest { namespace: name(), settings: Some(settings) };
    let made = namespaces.put(request).await.unwrap().into_inner();
    assert!(made.created);
    let made = made.namespace.unwrap();
    assert_eq!((made.weight, made.lease), (3, Some(lasting(5_000))));
    assert_eq!(made.signing_secret_fingerprints.len(), 1);
    let limits = made.limits.unwrap();
    assert_eq!(limits.namespace.unwrap().max_pending, Some(9));
    let lane = limits.lane.unwrap();
    assert_eq!((lane.max_in_flight, lane.deliver_per_second), (Some(7), None));

    let request = v1::PatchNamespaceRequest {
        namespace: name(),
        settings: Some(v1::NamespaceSettings {
            retention: Some(lasting(60_000)),
            ..v1::NamespaceSettings::default()
        }),
        reset: vec![v1::NamespaceField::Weight.into()],
    };
    let patched = namespaces.patch(request).await.unwrap().into_inner();
    assert_eq!(patched.weight, 1);
    assert_eq!(patched.retention, Some(lasting(60_000)));
    assert_eq!(patched.lease, Some(lasting(5_000)));
    let got = namespaces.get(v1::GetNamespaceRequest { namespace: name() }).await;
    assert_eq!(got.unwrap().into_inner(), patched);
    let list = namespaces.list(v1::ListNamespacesRequest::default()).await.unwrap().into_inner();
    assert_eq!((list.namespaces, list.cursor), (vec![patched], None));

    let paused = namespaces.pause(v1::PauseRequest { namespace: name() }).await;
    assert!(paused.unwrap().into_inner().paused);
    server.schedule(named("t")).await;
    let stats = namespaces.stats(v1::StatsRequest { namespace: name() }).await;
    let stats = stats.unwrap().into_inner();
    assert_eq!((stats.scheduled, stats.pending, stats.paused), (1, 1, true));
    assert_eq!(stats.lanes[0].lane, "pull");
    let request =
        v1::ForecastRequest { namespace: name(), bucket: Some(lasting(3_600_000)), count: Some(3) };
    let forecast = namespaces.forecast(request).await.unwrap().into_inner();
    assert_eq!((forecast.buckets.len(), forecast.pending), (3, 1));
    assert_eq!(forecast.buckets.iter().map(|bucket| bucket.due).sum::<u64>(), 1);
    let resumed = namespaces.resume(v1::ResumeRequest { namespace: name(), at: None }).await;
    let resumed = resumed.unwrap().into_inner();
    assert!(!resumed.paused);
    let request = v1::RepairNamespaceRequest { namespace: name(), keep: None };
    let repaired = namespaces.repair(request).await.unwrap().into_inner();
    assert_eq!((repaired.namespace, repaired.restored), (Some(resumed), false));
    assert_eq!((repaired.pending_lost, repaired.dead_lost), (0, 0));

    let request = v1::DeleteNamespaceRequest { namespace: name(), force: true };
    namespaces.delete(request).await.unwrap();
    let gone = namespaces.get(v1::GetNamespaceRequest { namespace: name() }).await;
    assert_eq!(gone.unwrap_err().code(), tonic::Code::NotFound);
}

#[tokio::test]
async fn a_setting_that_is_not_allowed_is_named_with_its_path() {
    let server = Server::start().await;
    let mut namespaces = server.namespaces();
    let of = |change: fn(&mut v1::NamespaceSettings)| {
        let mut settings = v1::NamespaceSettings::default();
        change(&mut settings);
        settings
    };
    let of_limits =
        |limits| v1::NamespaceSettings { limits: Some(limits), ..v1::NamespaceSettings::default() };
    let of_lane = |change: fn(&mut v1::LaneLimits)| {
        let mut lane = v1::LaneLimits::default();
        change(&mut lane);
        of_limits(v1::Limits { lane: Some(lane), namespace: None })
    };
    let of_whole = |change: fn(&mut v1::NamespaceLimits)| {
        let mut namespace = v1::NamespaceLimits::default();
        change(&mut namespace);
        of_limits(v1::Limits { lane: None, namespace: Some(namespace) })
    };
    let put = v1::PutNamespaceRequest { namespace: NAMESPACE.into(), settings: None };
    namespaces.put(put.clone()).await.unwrap();
    for (settings, field) in [
        (of(|it| it.weight = Some(0)), "settings.weight"),
        (of(|it| it.lease = Some(lasting(1))), "settings.lease"),
        (of(|it| it.retention = Some(lasting(-1_000))), "settings.retention.seconds"),
        (
            of(|it| it.retry = Some(v1::Retry { max_attempts: Some(0), ..Default::default() })),
            "settings.retry.max_attempts",
        ),
        (of(|it| it.fallback = Some(v1::Fallback::default())), "settings.fallback.destination"),
        (of_lane(|it| it.max_in_flight = Some(0)), "settings.limits.lane.max_in_flight"),
        (of_lane(|it| it.deliver_per_second = Some(0)), "settings.limits.lane.deliver_per_second"),
        (
            of_whole(|it| it.schedule_per_second = Some(0)),
            "settings.limits.namespace.schedule_per_second",
        ),
        (
            of_whole(|it| it.max_payload_bytes = Some(1 << 30)),
            "settings.limits.namespace.max_payload_bytes",
        ),
        (
            of_whole(|it| it.max_delay = Some(lasting(-1_000))),
            "settings.limits.namespace.max_delay.seconds",
        ),
        (of_whole(|it| it.max_dead = Some(0)), "settings.limits.namespace.max_dead"),
    ] {
        let request = v1::PutNamespaceRequest { settings: Some(settings.clone()), ..put.clone() };
        let put = namespaces.put(request).await.unwrap_err();
        let request = v1::PatchNamespaceRequest {
            namespace: NAMESPACE.into(),
            settings: Some(settings),
            reset: Vec::new(),
        };
        let patched = namespaces.patch(request).await.unwrap_err();
        for refused in [put, patched] {
            assert_eq!(refused.code(), tonic::Code::InvalidArgument);
            let violations = refused.get_error_details().bad_request().unwrap().clone();
            assert_eq!(violations.field_violations[0].field, field);
        }
    }
    let empty = v1::PatchNamespaceRequest {
        namespace: NAMESPACE.into(),
        settings: None,
        reset: Vec::new(),
    };
    let refused = namespaces.patch(empty).await.unwrap_err();
    let violations = refused.get_error_details().bad_request().unwrap().clone();
    assert_eq!(violations.field_violations[0].field, "settings");
}
