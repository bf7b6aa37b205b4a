//! The bounds of gRPC: one port and one memory budget with HTTP, and its own limits.

use bytes::Bytes;
use duly_api::v1;
use futures::{StreamExt, stream};
use prost::Message;
use tonic::{Code, Status};
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};
use tonic_types::StatusExt;

use super::{
    raw::{Raw, framed},
    server::{NAMESPACE, Server, after, lasting, named, scheduling, soon},
};

#[tokio::test]
async fn p10_a_message_has_the_limit_of_a_body() {
    let server = Server::with(&[("DULY_SERVER__BODY_BYTES_MAX", "100KiB")]).await;
    let mut raw = Raw::connect(&server).await;
    let large = |bytes| {
        let payload_base64 = Some(Bytes::from(vec![b'x'; bytes]));
        let request = scheduling(v1::Schedule { payload_base64, ..named("t") });
        framed(&request.encode_to_vec())
    };
    let path = "/duly.v1.Timers/Schedule";
    let refused = raw.call(path, &[], large(100 * 1024)).await;
    assert_eq!(refused.code(), Code::InvalidArgument);
    let details = refused.get_error_details();
    assert_eq!(details.error_info().unwrap().reason, "REQUEST_TOO_LARGE");
    assert_eq!(details.bad_request().unwrap().field_violations[0].field, "message");
    assert_eq!(raw.call(path, &[], large(100 * 1024 - 100)).await.code(), Code::Ok);
}

#[tokio::test]
async fn p10_a_message_of_a_probe_is_small() {
    let server = Server::start().await;
    let mut raw = Raw::connect(&server).await;
    for method in ["Check", "Watch"] {
        let path = format!("/grpc.health.v1.Health/{method}");
        let of = |bytes| {
            let service = "x".repeat(bytes);
            framed(&HealthCheckRequest { service }.encode_to_vec())
        };
        let refused = raw.call(&path, &[], of(4 * 1024)).await;
        assert_eq!(refused.code(), Code::InvalidArgument, "{method}");
        let details = refused.get_error_details();
        assert_eq!(details.error_info().unwrap().reason, "REQUEST_TOO_LARGE", "{method}");
        assert!(refused.message().contains("at most 4096 bytes"), "{refused:?}");
        let fits = raw.begin(&path, &[], of(4 * 1024 - 3)).await;
        let status = Status::from_header_map(fits.headers()).map(|status| status.code());
        assert_eq!(status, (method == "Check").then_some(Code::NotFound));
    }
}

#[tokio::test]
async fn p10_pages_end_within_the_memory_budget() {
    let settings =
        [("DULY_SERVER__BODY_BYTES_MAX", "1MiB"), ("DULY_SERVER__REQUEST_MEMORY_MAX", "2MiB")];
    let server = Server::with(&settings).await;
    let payload: &'static [u8] = vec![b'x'; 100_000].leak();
    for _ in 0..3 {
        let operations = (0..9).map(|_| {
            let payload_base64 = Some(payload.into());
            let schedule = v1::Schedule { id: None, payload_base64, ..named("t") };
            v1::Operation { schedule: Some(schedule.into()), ..v1::Operation::default() }
        });
        let operations = operations.collect();
        let request = v1::BatchRequest { namespace: NAMESPACE.into(), operations };
        server.timers().batch(request).await.unwrap();
    }
    // A page of all timers is larger than the memory budget: it ends early.
    let mut request = v1::ListRequest { namespace: NAMESPACE.into(), ..v1::ListRequest::default() };
    let mut counts = Vec::new();
    loop {
        let page = server.timers().list(request.clone()).await.unwrap().into_inner();
        counts.push(page.timers.len());
        request.cursor = page.cursor;
        if request.cursor.is_none() {
            break;
        }
    }
    assert!(counts.len() > 3 && counts.iter().all(|count| (1..10).contains(count)), "{counts:?}");
    assert_eq!(counts.iter().sum::<usize>(), 27);
}

#[tokio::test]
async fn p10_changes_without_response_memory_are_refused() {
    let settings = [
        ("DULY_SERVER__BODY_BYTES_MAX", "1MiB"),
        ("DULY_SERVER__REQUEST_MEMORY_MAX", "2MiB"),
        ("DULY_SERVER__REQUEST_TIMEOUT", "10m"),
    ];
    let server = Server::with(&settings).await;
    let payload_base64 = Some(Bytes::from(vec![b'x'; 200_000]));
    server.schedule(v1::Schedule { payload_base64, ..named("t") }).await;
    // Small calls with large responses, which their caller blocks.
    let mut closed = Raw::with_window(&server, 0).await;
    let mut answers = Vec::new();
    let full = loop {
        let change = v1::Reschedule {
            id: "t".into(),
            tags: Some(v1::TagList { tags: vec![format!("{}", answers.len())] }),
            ..v1::Reschedule::default()
        };
        let request =
            v1::RescheduleRequest { namespace: NAMESPACE.into(), reschedule: Some(change) };
        let path = "/duly.v1.Timers/Reschedule";
        let answer = closed.begin(path, &[], framed(&request.encode_to_vec())).await;
        if let Some(status) = Status::from_header_map(answer.headers()) {
            break status;
        }
        answers.push(answer);
    };
    assert_eq!(full.code(), Code::ResourceExhausted);
    assert!(full.get_error_details().retry_info().unwrap().retry_delay.is_some());
    let made = u32::try_from(answers.len()).unwrap();
    assert!((2..=5).contains(&made), "{made}");
    // A quarter is kept for small ones.
    server.timers().schedule(scheduling(named("u"))).await.unwrap();
    let service = HealthCheckRequest { service: "duly.v1.Timers".into() };
    let healthy = HealthClient::new(server.channel()).check(service).await.unwrap();
    assert_eq!(healthy.into_inner().status(), ServingStatus::Serving);
    drop((answers, closed));
    let room = async {
        loop {
            let get = v1::GetRequest { namespace: NAMESPACE.into(), id: "t".into() };
            match server.timers().get(get).await {
                Ok(timer) => return timer.into_inner(),
                Err(_) => tokio::task::yield_now().await,
            }
        }
    };
    let timer = soon(room).await;
    assert_eq!(timer.revision, Some(1 + made), "what was refused has changed nothing");
}

#[tokio::test]
async fn p10_only_connections_without_calls_are_closed() {
    let server = Server::with(&[("DULY_SERVER__HEADER_TIMEOUT", "1s")]).await;
    server
        .namespaces()
        .put(v1::PutNamespaceRequest { namespace: NAMESPACE.into(), settings: None })
        .await
        .unwrap();
    let open = v1::ConsumeOpen { namespace: NAMESPACE.into(), lease: None };
    let first = v1::ConsumeRequest { open: Some(open), credits: 1, settlements: Vec::new() };
    let requests = stream::iter([first]).chain(stream::pending());
    let mut firings = server.timers().consume(requests).await.unwrap().into_inner();
    let mut waits = Raw::connect(&server).await;
    let lease = v1::LeaseRequest {
        namespace: NAMESPACE.into(),
        wait: Some(lasting(60_000)),
        ..v1::LeaseRequest::default()
    };
    let mut waiting = waits.beside();
    let leased = tokio::spawn(async move {
        waiting.call("/duly.v1.Timers/Lease", &[], framed(&lease.encode_to_vec())).await
    });
    while server.running.waiting() != 2 {
        tokio::task::yield_now().await;
    }
    // Twice: first an idle connection gets GOAWAY, then it is closed.
    for _ in 0..2 {
        let mut idle = Raw::connect(&server).await;
        let answer = idle.call("/grpc.health.v1.Health/Check", &[], framed(b"")).await;
        assert_eq!(answer.code(), Code::Ok);
        soon(idle.connection).await.unwrap().expect("in order: with GOAWAY, and no error");
    }
    let due = framed(&scheduling(v1::Schedule { id: None, ..after(0) }).encode_to_vec());
    for _ in 0..2 {
        let status = waits.call("/duly.v1.Timers/Schedule", &[], due.clone()).await;
        assert_eq!(status.code(), Code::Ok, "it takes new calls: {status:?}");
    }
    assert!(soon(firings.next()).await.unwrap().is_ok());
    assert_eq!(soon(leased).await.unwrap().code(), Code::Ok);
    soon(waits.connection).await.unwrap().expect("it rests now, and is closed in order");
}

#[tokio::test]
async fn many_calls_are_in_flight_on_one_connection() {
    let server = Server::start().await;
    let timers = server.timers();
    let calls = (0..200).map(|i| {
        let mut timers = timers.clone();
        async move { timers.schedule(scheduling(named(&format!("t{i}")))).await }
    });
    let answers = futures::future::join_all(calls).await;
    assert!(answers.iter().all(Result::is_ok));
}
