//! The gRPC interface: a file for each service, with one layer in front of all services.
//!
//! ```text
//!   request ──► switch ──► edge (admission, deadline, panics, metrics) ──► tonic ──► service ──► Store / node
//!                │           inbound (size, memory)                                 │
//!   response ◄───┴─── outbound (memory, hand-over) ◄── a message, or a Status ──────┘
//! ```
//!
//! It shares the port and the rules of HTTP: the same guard, limits, memory budget and drain. Messages
//! are those of [`duly_api`]. The checks of JSON check them too, and the functions of
//! [`crate::service`] call the store. Start reading at [`router`], then the module `timers`.

mod consume;
mod edge;
mod health;
mod inbound;
mod namespaces;
mod outbound;
mod status;
mod timers;

#[cfg(test)]
pub(crate) use consume::CONSUMERS_MAX;

use axum::{
    Router,
    extract::{Request, State},
    middleware,
    response::Response,
};
use duly_api::v1::{
    cluster_server::ClusterServer, namespaces_server::NamespacesServer, timers_server::TimersServer,
};
use duly_core::{Invalid, NamespaceName};
use tonic_health::pb::health_server::HealthServer;
use tonic_reflection::server::Builder as Reflection;

use crate::{
    problem::Problem,
    service::{Admitted, App, StartupState, items::BATCH_BYTES_MAX},
};

/// Most bytes of a response: no limit, because the memory budget bounds a page.
const RESPONSE_BYTES_MAX: usize = usize::MAX;

/// The result of a method.
type GrpcResult<T> = Result<tonic::Response<T>, tonic::Status>;

/// Returns the router of gRPC while the store opens: the caller has to retry.
pub(crate) fn startup_router(startup: StartupState) -> Router {
    Router::new().fallback(not_yet).with_state(startup)
}

async fn not_yet(State(startup): State<StartupState>, request: Request) -> Response {
    let checked = startup.guard.check(request.uri(), request.headers());
    edge::refuse(checked.err().unwrap_or_else(|| startup.not_yet()))
}

/// Returns the router of gRPC.
pub fn router(app: App) -> Router {
    let bytes_max = message_bytes_max(&app);
    macro_rules! sized {
        ($server:expr) => {
            $server
                .max_decoding_message_size(bytes_max)
                .max_encoding_message_size(RESPONSE_BYTES_MAX)
        };
    }
    let timers = sized!(TimersServer::new(timers::TimersService::default()));
    let namespaces = sized!(NamespacesServer::new(namespaces::NamespacesService));
    let cluster = sized!(ClusterServer::new(health::ClusterService));
    let health = HealthServer::new(health::HealthService);
    Router::new()
        .route_service("/duly.v1.Timers/{method}", timers)
        .route_service("/duly.v1.Namespaces/{method}", namespaces)
        .route_service("/duly.v1.Cluster/{method}", cluster)
        .route_service("/grpc.health.v1.Health/{method}", health)
        .route_service(
            "/grpc.reflection.v1.ServerReflection/{method}",
            described().build_v1().expect("the committed descriptors are whole"),
        )
        .route_service(
            "/grpc.reflection.v1alpha.ServerReflection/{method}",
            described().build_v1alpha().expect("the committed descriptors are whole"),
        )
        .layer(middleware::from_fn_with_state(app, edge::edge))
}

fn described() -> Reflection<'static> {
    Reflection::configure()
        .register_encoded_file_descriptor_set(duly_api::v1::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
}

/// Returns the most bytes of one message, which are those of one body.
fn message_bytes_max(app: &App) -> usize {
    app.limits.body_bytes_max.min(BATCH_BYTES_MAX)
}

/// Returns the admitted call that the layer in front of the services has added.
fn admitted_of<T>(request: &tonic::Request<T>) -> Result<Admitted, Problem> {
    let admitted = request.extensions().get::<Admitted>().cloned();
    admitted.ok_or_else(|| Problem::fault("a method ran without admission"))
}

/// Returns the admitted call and the message of a request.
fn read<T>(request: tonic::Request<T>) -> Result<(Admitted, T), Problem> {
    Ok((admitted_of(&request)?, request.into_inner()))
}

/// Returns the admitted call, the namespace that `name` reads from its message, and the message.
fn read_in<T>(
    request: tonic::Request<T>,
    name: impl FnOnce(&T) -> &str,
) -> Result<(Admitted, NamespaceName, T), Problem> {
    let (admitted, message) = read(request)?;
    let namespace = namespace(&admitted, name(&message))?;
    Ok((admitted, namespace, message))
}

/// Parses the namespace of a message, and checks that the caller may use it.
fn namespace(admitted: &Admitted, name: &str) -> Result<NamespaceName, Problem> {
    let name = NamespaceName::new(name)?;
    admitted.check_namespace(&name)?;
    Ok(name)
}

/// Returns a required part of a message.
fn required<T>(field: &str, value: Option<T>) -> Result<T, Problem> {
    value.ok_or_else(|| Invalid::unseen(field, "given").into())
}
