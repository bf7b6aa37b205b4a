//! Rules of receivers and payloads that are the same over gRPC and HTTP.

use bytes::Bytes;
use duly_api::v1;
use tonic::{Code, Status};
use tonic_types::StatusExt;

use super::server::{NAMESPACE, Server, named, scheduling};

/// Returns the field that a refused call names, and the allowed values.
#[track_caller]
fn at_fault(refused: &Status) -> (String, String) {
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused:?}");
    let details = refused.get_error_details();
    let field = details.bad_request().unwrap().field_violations[0].field.clone();
    (field, refused.message().to_owned())
}

fn webhook(host: &str) -> Option<v1::Destination> {
    let url = format!("http://{host}/hook");
    let http = v1::HttpDestination { url, ..v1::HttpDestination::default() };
    Some(v1::Destination { http: Some(http), pull: None })
}

fn change_of(change: v1::Reschedule) -> v1::RescheduleRequest {
    let reschedule = Some(v1::Reschedule { id: "t".into(), ..change });
    v1::RescheduleRequest { namespace: NAMESPACE.into(), reschedule }
}

/// Returns the fields at fault of a batch's results; `None` for an accepted operation.
async fn batch(server: &Server, operations: Vec<v1::Operation>) -> Vec<Option<String>> {
    let request = v1::BatchRequest { namespace: NAMESPACE.into(), operations };
    let results = server.timers().batch(request).await.unwrap().into_inner().results;
    let field = |result: v1::OperationResult| {
        assert!(result.timer.is_some() != result.error.is_some(), "{result:?}");
        result.error.map(|problem| problem.field.unwrap())
    };
    results.into_iter().map(field).collect()
}

fn scheduled(schedule: v1::Schedule) -> v1::Operation {
    v1::Operation { schedule: Some(schedule.into()), ..v1::Operation::default() }
}

fn rescheduled(reschedule: v1::Reschedule) -> v1::Operation {
    v1::Operation { reschedule: Some(reschedule.into()), ..v1::Operation::default() }
}

#[tokio::test]
async fn a_receiver_at_a_refused_address_is_refused_when_it_is_named() {
    let server = Server::start().await;
    server.schedule(named("t")).await;
    let inside = || webhook("10.0.0.1");
    let outside = || webhook("8.8.8.8");
    let schedule = |id: &str, destination| v1::Schedule { destination, ..named(id) };
    let change =
        |destination| v1::Reschedule { id: "t".into(), destination, ..v1::Reschedule::default() };

    let refused = server.timers().schedule(scheduling(schedule("s", inside()))).await.unwrap_err();
    let (field, message) = at_fault(&refused);
    assert_eq!(field, "schedule.destination.http.url");
    assert!(message.contains("delivery.allow_networks"), "{message}");
    let refused = server.timers().reschedule(change_of(change(inside()))).await.unwrap_err();
    assert_eq!(at_fault(&refused).0, "reschedule.destination.http.url");
    let fields = batch(
        &server,
        vec![
            scheduled(schedule("u", inside())),
            scheduled(schedule("v", outside())),
            rescheduled(change(inside())),
            rescheduled(change(outside())),
        ],
    );
    let at = |field: &str| Some(field.to_owned());
    assert_eq!(
        fields.await,
        [
            at("operations[0].schedule.destination.http.url"),
            None,
            at("operations[2].reschedule.destination.http.url"),
            None
        ]
    );

    let settings = |destination, second: Option<v1::Destination>| {
        let fallback = second
            .map(|second| v1::Fallback { destination: Some(second), ..v1::Fallback::default() });
        Some(v1::NamespaceSettings { destination, fallback, ..v1::NamespaceSettings::default() })
    };
    for (settings, field) in [
        (settings(inside(), None), "settings.destination.http.url"),
        (settings(outside(), inside()), "settings.fallback.destination.http.url"),
    ] {
        let namespace = || "b".to_owned();
        let put = v1::PutNamespaceRequest { namespace: namespace(), settings: settings.clone() };
        let refused = server.namespaces().put(put.clone()).await.unwrap_err();
        assert_eq!(at_fault(&refused).0, field);
        let fine = v1::PutNamespaceRequest { settings: None, ..put };
        server.namespaces().put(fine).await.unwrap();
        let reset = Vec::new();
        let patch = v1::PatchNamespaceRequest { namespace: namespace(), settings, reset };
        let refused = server.namespaces().patch(patch).await.unwrap_err();
        assert_eq!(at_fault(&refused).0, field);
    }
}

fn nested(levels: usize) -> Option<Bytes> {
    Some(Bytes::from(format!("{}1{}", "[".repeat(levels), "]".repeat(levels))))
}

#[tokio::test]
async fn p10_a_json_payload_is_nested_so_deep_and_no_deeper() {
    let server = Server::start().await;
    server.schedule(named("t")).await;
    let schedule = |id: &str, levels| v1::Schedule { payload: nested(levels), ..named(id) };
    let change = |levels| {
        let payload = nested(levels);
        v1::Reschedule { id: "t".into(), payload, ..v1::Reschedule::default() }
    };
    let refused = server.timers().schedule(scheduling(schedule("s", 65))).await.unwrap_err();
    let (field, message) = at_fault(&refused);
    assert_eq!(field, "schedule.payload");
    assert!(message.contains("65 levels") && message.contains("payload_text"), "{message}");
    let refused = server.timers().reschedule(change_of(change(65))).await.unwrap_err();
    assert_eq!(at_fault(&refused).0, "reschedule.payload");
    let fields = batch(
        &server,
        vec![
            scheduled(schedule("u", 65)),
            scheduled(schedule("v", 64)),
            scheduled(v1::Schedule { payload_text: nested(65), ..named("w") }),
            scheduled(v1::Schedule { payload_base64: nested(65), ..named("x") }),
            rescheduled(change(100_000)),
            rescheduled(change(64)),
        ],
    );
    let at = |field: &str| Some(field.to_owned());
    assert_eq!(
        fields.await,
        [
            at("operations[0].schedule.payload"),
            None,
            None,
            None,
            at("operations[4].reschedule.payload"),
            None
        ]
    );
}
