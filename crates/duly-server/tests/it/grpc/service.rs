//! Health, reflection, and the state of the service.

use std::collections::BTreeSet;

use duly_api::v1;
use futures::{StreamExt, stream};
use prost::Message;
use prost_types::FileDescriptorSet;
use tonic::Code;
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};
use tonic_reflection::pb::v1::{
    ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
    server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
};

use super::server::{Server, named, soon};

#[tokio::test]
async fn the_service_tells_how_it_is() {
    let server = Server::start().await;
    server.schedule(named("t")).await;
    let info = server.cluster().get(v1::GetClusterRequest {}).await.unwrap().into_inner();
    assert_eq!((info.ready, info.reasons.len(), info.pending), (true, 0, 1));
    assert_eq!(info.version, env!("CARGO_PKG_VERSION"));
    let nodes: Vec<_> = info.nodes.iter().map(|node| (node.this, &node.state[..])).collect();
    assert_eq!(nodes, [(true, "active")]);
}

#[tokio::test]
async fn health_is_asked_for_and_watched_until_the_end() {
    let server = Server::start().await;
    let mut health = HealthClient::new(server.channel());
    let request = |service: &str| HealthCheckRequest { service: service.into() };
    for service in ["", "duly.v1.Timers", "duly.v1.Namespaces", "duly.v1.Cluster"] {
        let answer = health.check(request(service)).await.unwrap().into_inner();
        assert_eq!(answer.status(), ServingStatus::Serving, "{service}");
    }
    assert_eq!(health.check(request("x")).await.unwrap_err().code(), Code::NotFound);
    let mut unknown = health.watch(request("x")).await.unwrap().into_inner();
    let first = soon(unknown.next()).await.unwrap().unwrap();
    assert_eq!(first.status(), ServingStatus::ServiceUnknown);
    drop(unknown);
    let mut watch = health.watch(request("")).await.unwrap().into_inner();
    assert_eq!(soon(watch.next()).await.unwrap().unwrap().status(), ServingStatus::Serving);
    let stopping = tokio::spawn(server.running.stop());
    let mut last = soon(watch.next()).await.unwrap();
    if let Ok(answer) = &last {
        assert_eq!(answer.status(), ServingStatus::NotServing);
        last = soon(watch.next()).await.unwrap();
    }
    assert_eq!(last.unwrap_err().code(), Code::Unavailable);
    soon(stopping).await.unwrap().unwrap();
}

#[tokio::test]
async fn reflection_lists_every_service_and_holds_up_no_stop() {
    let server = Server::start().await;
    let mut client = ServerReflectionClient::new(server.channel());
    let ask = |what| ServerReflectionRequest { host: String::new(), message_request: Some(what) };
    let asked = [
        ask(MessageRequest::ListServices(String::new())),
        ask(MessageRequest::FileContainingSymbol("duly.v1.Timers".into())),
    ];
    // The caller never ends its side.
    let asked = stream::iter(asked).chain(stream::pending());
    let mut answers = client.server_reflection_info(asked).await.unwrap().into_inner();
    let Some(MessageResponse::ListServicesResponse(list)) =
        soon(answers.next()).await.unwrap().unwrap().message_response
    else {
        panic!("no list");
    };
    let names: BTreeSet<_> = list.service.iter().map(|service| service.name.as_str()).collect();
    for name in ["duly.v1.Timers", "duly.v1.Namespaces", "duly.v1.Cluster", "grpc.health.v1.Health"]
    {
        assert!(names.contains(name), "{name}: {names:?}");
    }
    let file = soon(answers.next()).await.unwrap().unwrap().message_response;
    assert!(matches!(file, Some(MessageResponse::FileDescriptorResponse(_))), "{file:?}");
    soon(server.running.stop()).await.unwrap();
    assert!(soon(answers.next()).await.is_none_or(|it| it.is_err()));
}

#[test]
fn the_page_names_every_call() {
    let page = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/grpc.md"));
    let set = FileDescriptorSet::decode(v1::FILE_DESCRIPTOR_SET).unwrap();
    let services: Vec<_> = set.file.iter().flat_map(|file| &file.service).collect();
    assert_eq!(services.len(), 3);
    for service in services {
        let calls: Vec<_> = service.method.iter().map(|it| format!("`{}`", it.name())).collect();
        let row = format!("| `duly.v1.{}` | {} |", service.name(), calls.join(", "));
        assert!(page.lines().any(|line| line == row), "{row}");
    }
}
