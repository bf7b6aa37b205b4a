use std::collections::{BTreeMap, BTreeSet};

use axum::Router;
use duly_api::v1::FILE_DESCRIPTOR_SET;
use prost::Message;
use prost_types::FileDescriptorSet;
use serde_json::Value;

use super::*;
use crate::{grpc, http, openapi_json, tests::TestServer};

#[test]
fn every_route_has_one_row_with_its_name() {
    let document: Value = serde_json::from_str(&openapi_json()).unwrap();
    let described: BTreeSet<_> = document["paths"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, calls)| {
            let calls = calls.as_object().unwrap().iter();
            calls.map(move |(method, call)| {
                let name = call["operationId"].as_str().unwrap();
                (method.to_uppercase(), path.clone(), name.to_owned())
            })
        })
        .collect();
    let of_http = OPERATIONS.iter().filter_map(|it| Some((it.http?, it.name)));
    let rows: Vec<_> = of_http
        .map(|((method, path), name)| (method.to_owned(), path.to_owned(), name.to_owned()))
        .collect();
    assert_eq!(rows.len(), described.len());
    assert_eq!(rows.into_iter().collect::<BTreeSet<_>>(), described);
}

#[test]
fn every_grpc_method_has_one_row_that_knows_streams() {
    let mut described = BTreeMap::new();
    for encoded in [FILE_DESCRIPTOR_SET, tonic_health::pb::FILE_DESCRIPTOR_SET] {
        for file in &FileDescriptorSet::decode(encoded).unwrap().file {
            for service in &file.service {
                for method in &service.method {
                    let path = format!("/{}.{}/{}", file.package(), service.name(), method.name());
                    let is_stream = method.server_streaming() || method.client_streaming();
                    described.insert(path, is_stream);
                }
            }
        }
    }
    for version in ["v1", "v1alpha"] {
        let path = format!("/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo");
        described.insert(path, true);
    }
    let of_grpc = OPERATIONS.iter().filter_map(|it| Some((it.grpc?, it.time_limit)));
    let rows: Vec<_> = of_grpc
        .map(|(path, time_limit)| (path.to_owned(), time_limit == TimeLimit::Stream))
        .collect();
    assert_eq!(rows.len(), described.len());
    assert_eq!(rows.into_iter().collect::<BTreeMap<_, _>>(), described);
}

/// Returns the paths of a router, which its `Debug` text names in quotes.
fn paths_of(router: &Router) -> BTreeSet<String> {
    let text = format!("{router:?}");
    let quoted = text.split('"').skip(1).step_by(2);
    // axum gives each fallback a path of its own.
    let is_fallback = |path: &str| path == "/" || path.contains("__private");
    let paths = quoted.filter(|text| text.starts_with('/') && !is_fallback(text));
    paths.map(str::to_owned).collect()
}

#[tokio::test]
async fn no_router_has_a_path_without_a_row() {
    let app = TestServer::start().await.app.clone();
    let of_http: BTreeSet<_> = routes().map(str::to_owned).collect();
    assert_eq!(paths_of(&http::router(app.clone())), of_http);
    let of_probes: BTreeSet<_> = probe_paths().map(str::to_owned).collect();
    assert_eq!(paths_of(&http::admin_router(app.clone())), of_probes);
    let services = OPERATIONS.iter().filter_map(|it| it.grpc?.rsplit_once('/'));
    let of_grpc: BTreeSet<_> = services.map(|(it, _)| format!("{it}/{{method}}")).collect();
    assert_eq!(paths_of(&grpc::router(app)), of_grpc);
}

#[test]
fn names_are_unique() {
    let names: BTreeSet<_> = OPERATIONS.iter().map(|operation| operation.name).collect();
    assert_eq!(names.len(), OPERATIONS.len());
}

#[test]
fn calls_without_a_row_need_a_key_or_every_right() {
    assert_eq!(UNKNOWN_PATH.right, Right::AnyKey);
    assert_eq!(of_http(&Method::GET, "/v1/new").right, Right::NeedsAll);
    assert_eq!(of_http(&Method::POST, "/v1/whoami").right, Right::NeedsAll);
    assert_eq!(of_http(&Method::HEAD, "/v1/whoami").name, "whoami");
    assert_eq!(of_grpc("/duly.v1.Timers/Nothing"), None);
}

#[test]
fn methods_are_listed_in_one_order() {
    let timer = "/v1/namespaces/{namespace}/timers/{id}";
    assert_eq!(methods_of(timer).as_deref(), Some("GET, HEAD, PATCH, DELETE"));
    let namespace = "/v1/namespaces/{namespace}";
    assert_eq!(methods_of(namespace).as_deref(), Some("GET, HEAD, PUT, PATCH, DELETE"));
    assert_eq!(methods_of("/v1/nothing"), None);
}

#[test]
fn probes_are_the_rows_of_health_and_metrics() {
    let paths = |is_row: bool| {
        let rows = OPERATIONS.iter().filter(move |it| it.kind.is_probe() == is_row);
        rows.flat_map(|it| it.http.map(|(_, path)| path).into_iter().chain(it.grpc))
    };
    assert!(paths(true).all(is_probe));
    assert!(!paths(false).any(is_probe));
    assert_eq!(probe_paths().collect::<Vec<_>>(), [HEALTHZ, READYZ, METRICS]);
}
