//! Calls over HTTP/2 by hand, for invalid requests that no gRPC client sends.

use std::ops::{Deref, DerefMut};

use bytes::{BufMut, Bytes, BytesMut};
use duly_api::v1;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::{
    body::Incoming,
    client::conn::http2::{Builder, SendRequest},
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::{net::TcpStream, task::JoinHandle};
use tonic::{Code, Status};
use tonic_types::StatusExt;

use super::server::{NAMESPACE, Server, lasting, named, scheduling};

/// The sender of calls over a connection.
#[derive(Clone)]
pub(super) struct Calls {
    sender: SendRequest<Full<Bytes>>,
    authority: String,
}

/// A connection.
pub(super) struct Raw {
    calls: Calls,
    /// Ends with the connection.
    pub(super) connection: JoinHandle<hyper::Result<()>>,
}

impl Raw {
    pub(super) async fn connect(server: &Server) -> Self {
        Self::with_window(server, 1 << 20).await
    }

    /// Connects with a flow-control window of `window` bytes for each response.
    pub(super) async fn with_window(server: &Server, window: u32) -> Self {
        let address = server.running.addr();
        let stream = TcpStream::connect(address).await.unwrap();
        let mut builder = Builder::new(TokioExecutor::new());
        builder.initial_stream_window_size(window);
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
        let calls = Calls { sender, authority: address.to_string() };
        Self { calls, connection: tokio::spawn(connection) }
    }

    /// Returns a sender for calls over the same connection.
    pub(super) fn beside(&self) -> Calls {
        self.calls.clone()
    }
}

impl Deref for Raw {
    type Target = Calls;

    fn deref(&self) -> &Calls {
        &self.calls
    }
}

impl DerefMut for Raw {
    fn deref_mut(&mut self) -> &mut Calls {
        &mut self.calls
    }
}

impl Calls {
    /// Sends a body; returns the status, which may be in the headers or the trailers of a response.
    pub(super) async fn call(
        &mut self,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Status {
        let (head, body) = self.begin(path, headers, body).await.into_parts();
        if let Some(status) = Status::from_header_map(&head.headers) {
            return status;
        }
        let trailers: Option<HeaderMap> = body.collect().await.unwrap().trailers().cloned();
        Status::from_header_map(&trailers.unwrap()).unwrap()
    }

    /// Sends a body; returns the response without waiting for its end.
    pub(super) async fn begin(
        &mut self,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Response<Incoming> {
        let mut request = Request::post(format!("http://{}{path}", self.authority))
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body.into())).unwrap();
        self.sender.ready().await.unwrap();
        let response = self.sender.send_request(request).await.unwrap();
        assert_eq!(response.status(), 200);
        response
    }
}

/// Returns a message with its head.
pub(super) fn framed(message: &[u8]) -> Bytes {
    let mut bytes = BytesMut::new();
    bytes.put_u8(0);
    bytes.put_u32(u32::try_from(message.len()).unwrap());
    bytes.put_slice(message);
    bytes.freeze()
}

fn reason(status: &Status) -> String {
    let details = status.get_error_details();
    details.error_info().map(|info| info.reason.clone()).unwrap_or_default()
}

const SCHEDULE: &str = "/duly.v1.Timers/Schedule";

#[tokio::test]
async fn p10_no_message_ends_the_connection() {
    let server = Server::start().await;
    let mut raw = Raw::connect(&server).await;
    let good = framed(&scheduling(named("t")).encode_to_vec());
    let cut = good.slice(..good.len() - 1);
    let too_much = [0, 0xff, 0xff, 0xff, 0xff, 1, 2, 3];
    let invalid = (Code::InvalidArgument, "INVALID_ARGUMENT");
    for (name, path, body, (code, said)) in [
        ("garbage", SCHEDULE, framed(b"\xff\xff\xff\xff"), invalid),
        ("no message", SCHEDULE, Bytes::new(), invalid),
        ("half a head", SCHEDULE, Bytes::from_static(&[0, 0]), invalid),
        ("half a message", SCHEDULE, cut, invalid),
        ("a flag that is none", SCHEDULE, Bytes::from_static(&[9, 0, 0, 0, 0]), invalid),
        (
            "more than may be",
            SCHEDULE,
            Bytes::copy_from_slice(&too_much),
            (Code::InvalidArgument, "REQUEST_TOO_LARGE"),
        ),
        (
            "no such method",
            "/duly.v1.Timers/Nothing",
            good.clone(),
            (Code::Unimplemented, "METHOD_NOT_ALLOWED"),
        ),
        ("no such path", "/x", good.clone(), (Code::Unimplemented, "METHOD_NOT_ALLOWED")),
        ("garbage in a stream", "/duly.v1.Timers/Consume", framed(b"\xff\xff\xff"), invalid),
        ("a stream without a beginning", "/duly.v1.Timers/Consume", framed(b""), invalid),
    ] {
        let status = raw.call(path, &[], body).await;
        assert_eq!((status.code(), &reason(&status)[..]), (code, said), "{name}: {status:?}");
    }
    let status = raw.call(SCHEDULE, &[], good).await;
    assert_eq!(status.code(), Code::Ok, "the connection serves on: {status:?}");
}

#[tokio::test]
async fn no_web_page_may_call() {
    let server = Server::start().await;
    let mut raw = Raw::connect(&server).await;
    let good = framed(&scheduling(named("t")).encode_to_vec());
    let status = raw.call(SCHEDULE, &[("origin", "http://evil.example")], good.clone()).await;
    assert_eq!(
        (status.code(), &reason(&status)[..]),
        (Code::PermissionDenied, "PERMISSION_DENIED")
    );
    raw.authority = "evil.example".into();
    let status = raw.call(SCHEDULE, &[], good).await;
    assert_eq!(status.code(), Code::PermissionDenied);
}

#[tokio::test]
async fn allowed_origins_may_call_grpc_without_cors_headers() {
    let origin = "https://console.example";
    let allowed = "https://console.example";
    let server = Server::with(&[("DULY_SERVER__ALLOWED_ORIGINS", allowed)]).await;
    let mut raw = Raw::connect(&server).await;
    let good = framed(&scheduling(named("t")).encode_to_vec());
    for headers in [&[("origin", origin)][..], &[]] {
        let answer = raw.begin(SCHEDULE, headers, good.clone()).await;
        let names = answer.headers().keys().map(http::HeaderName::as_str);
        let cors: Vec<_> = names
            .filter(|name| name.starts_with("access-control-") || *name == "vary")
            .map(str::to_owned)
            .collect();
        assert!(cors.is_empty(), "{cors:?}");
        let trailers = answer.into_body().collect().await.unwrap().trailers().cloned().unwrap();
        assert_eq!(Status::from_header_map(&trailers).unwrap().code(), Code::Ok);
    }
    let refused = raw.call(SCHEDULE, &[("origin", "https://evil.example")], good).await;
    assert_eq!(refused.code(), Code::PermissionDenied);
}

#[tokio::test]
async fn a_call_ends_when_its_caller_wants_it_to() {
    let server = Server::start().await;
    server.schedule(named("t")).await;
    let mut raw = Raw::connect(&server).await;
    let request = v1::LeaseRequest {
        namespace: NAMESPACE.into(),
        wait: Some(lasting(60_000)),
        ..v1::LeaseRequest::default()
    };
    let open = v1::ConsumeOpen { namespace: NAMESPACE.into(), lease: None };
    let consume = v1::ConsumeRequest { open: Some(open), credits: 1, settlements: Vec::new() };
    for (path, body) in [
        ("/duly.v1.Timers/Lease", framed(&request.encode_to_vec())),
        ("/grpc.health.v1.Health/Watch", framed(b"")),
    ] {
        let status = raw.call(path, &[("grpc-timeout", "20m")], body).await;
        assert_eq!(status.code(), Code::DeadlineExceeded, "{path}");
        assert_eq!(reason(&status), "DEADLINE_EXCEEDED", "{path}");
    }
    for given in ["20", "x", "-1S", "123456789S"] {
        let body = framed(&consume.encode_to_vec());
        let status = raw.call("/duly.v1.Timers/Consume", &[("grpc-timeout", given)], body).await;
        assert_eq!(status.code(), Code::InvalidArgument, "{given}");
        let violations = status.get_error_details().bad_request().unwrap().clone();
        assert_eq!(violations.field_violations[0].field, "grpc-timeout");
    }
}
