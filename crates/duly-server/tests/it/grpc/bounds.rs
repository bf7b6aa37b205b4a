//! One port, one budget of memory, and its own limits.

use bytes::Bytes;
use duly_proto::v1;
use prost::Message;
use tonic::Code;
use tonic_types::StatusExt;

use super::{
    raw::{Raw, framed},
    server::{NAMESPACE, Server, named, scheduling},
};

#[tokio::test]
async fn p10_a_message_has_the_limit_of_a_body() {
    let server = Server::with(&[("DULY_SERVER__BODY_BYTES_MAX", "100KiB")]).await;
    let mut raw = Raw::connect(&server).await;
    let large = |bytes| {
        let payload = Some(Bytes::from(vec![b'x'; bytes]));
        let request = scheduling(v1::Schedule { payload, ..named("t") });
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
async fn p10_what_does_not_fit_into_the_memory_is_to_come_again() {
    let settings =
        [("DULY_SERVER__BODY_BYTES_MAX", "1MiB"), ("DULY_SERVER__BODIES_BYTES_MAX", "2MiB")];
    let server = Server::with(&settings).await;
    let payload: &'static [u8] = vec![b'x'; 100_000].leak();
    for _ in 0..3 {
        let operations = (0..9).map(|_| {
            let schedule = v1::Schedule { id: None, payload: Some(payload.into()), ..named("t") };
            v1::Operation { operation: Some(v1::operation::Operation::Schedule(schedule)) }
        });
        let operations = operations.collect();
        let request = v1::BatchRequest { namespace: NAMESPACE.into(), operations };
        server.timers().batch(request).await.unwrap();
    }
    // A page of all of them is larger than everything that may be in memory.
    let request = v1::ListRequest { namespace: NAMESPACE.into(), ..v1::ListRequest::default() };
    let refused = server.timers().list(request.clone()).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    let details = refused.get_error_details();
    assert!(details.retry_info().unwrap().retry_delay.is_some());
    let small = v1::ListRequest { limit: Some(10), ..request };
    assert_eq!(server.timers().list(small).await.unwrap().into_inner().timers.len(), 10);
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
