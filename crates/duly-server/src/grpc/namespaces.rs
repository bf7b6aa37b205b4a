//! `duly.v1.Namespaces`: every call on namespaces.

use duly_api::{
    MessageFormat,
    v1::{self, namespaces_server::Namespaces},
};
use duly_store::namespaces::{Activity, DeleteMode, Namespace};
use prost::Message;
use tonic::Request;

use super::{
    GrpcResult, Problem,
    outbound::{change_response, read_response, read_response_within},
    read, read_in,
};
use crate::messages;

/// Path of the settings in a request.
const SETTINGS: &str = "settings";

/// The service.
#[derive(Debug)]
pub(super) struct NamespacesService;

/// Puts the path of the settings in front of their field at fault.
fn in_settings(problem: Problem) -> Problem {
    let is_own = |field: &str| field == SETTINGS || field.starts_with("reset[");
    if problem.field().is_some_and(is_own) { problem } else { problem.within(SETTINGS) }
}

#[tonic::async_trait]
impl Namespaces for NamespacesService {
    async fn put(
        &self,
        request: Request<v1::PutNamespaceRequest>,
    ) -> GrpcResult<v1::PutNamespaceResponse> {
        let (admitted, name, request) = read_in(request, |it| &it.namespace)?;
        let settings = request.settings.unwrap_or_default();
        let put = admitted.put_namespace(name, settings, &[]).await;
        let (namespace, created) = put.map_err(in_settings)?;
        let namespace = Some(messages::namespace(&namespace));
        Ok(change_response(&admitted, v1::PutNamespaceResponse { namespace, created }).await)
    }

    async fn patch(
        &self,
        request: Request<v1::PatchNamespaceRequest>,
    ) -> GrpcResult<v1::Namespace> {
        let (admitted, name, request) = read_in(request, |it| &it.namespace)?;
        let change = request.settings.unwrap_or_default();
        let patched =
            admitted.patch_namespace(name, change, &request.reset, MessageFormat::Protobuf).await;
        let namespace = patched.map_err(in_settings)?;
        Ok(change_response(&admitted, messages::namespace(&namespace)).await)
    }

    async fn get(&self, request: Request<v1::GetNamespaceRequest>) -> GrpcResult<v1::Namespace> {
        let (admitted, name, _) = read_in(request, |it| &it.namespace)?;
        let namespace = admitted.namespace(name).await?;
        Ok(read_response(&admitted, messages::namespace(&namespace))?)
    }

    async fn list(
        &self,
        request: Request<v1::ListNamespacesRequest>,
    ) -> GrpcResult<v1::ListNamespacesResponse> {
        let (admitted, request) = read(request)?;
        let limit = request.limit;
        let mut reservation = admitted.budget().empty_reservation();
        let (mut namespaces, mut bytes) = (Vec::new(), 0);
        let show = |namespace: &Namespace| {
            let shown = messages::namespace(namespace);
            let with = bytes + shown.encoded_len() + size_of_val(&shown);
            // The message, and its text in a buffer that doubles.
            reservation.grow_to(3 * with)?;
            bytes = with;
            namespaces.push(shown);
            Ok(())
        };
        let cursor = admitted.namespaces(limit, request.cursor.as_deref(), show).await?;
        Ok(read_response_within(reservation, v1::ListNamespacesResponse { namespaces, cursor })?)
    }

    async fn delete(
        &self,
        request: Request<v1::DeleteNamespaceRequest>,
    ) -> GrpcResult<v1::DeleteNamespaceResponse> {
        let (admitted, name, request) = read_in(request, |it| &it.namespace)?;
        let mode = if request.force { DeleteMode::Force } else { DeleteMode::IfEmpty };
        admitted.delete_namespace(name, mode).await?;
        Ok(change_response(&admitted, v1::DeleteNamespaceResponse {}).await)
    }

    async fn pause(&self, request: Request<v1::PauseRequest>) -> GrpcResult<v1::Namespace> {
        let (admitted, name, _) = read_in(request, |it| &it.namespace)?;
        let namespace = admitted.set_activity(name, Activity::Paused).await?;
        Ok(change_response(&admitted, messages::namespace(&namespace)).await)
    }

    async fn resume(&self, request: Request<v1::ResumeRequest>) -> GrpcResult<v1::Namespace> {
        let (admitted, name, request) = read_in(request, |it| &it.namespace)?;
        let at = request.at.map(|at| at.check("at")).transpose().map_err(Problem::from)?;
        let activity = at.map_or(Activity::Running, Activity::ResumeAt);
        let namespace = admitted.set_activity(name, activity).await?;
        Ok(change_response(&admitted, messages::namespace(&namespace)).await)
    }

    async fn repair(
        &self,
        request: Request<v1::RepairNamespaceRequest>,
    ) -> GrpcResult<v1::RepairNamespaceResponse> {
        let (admitted, name, request) = read_in(request, |it| &it.namespace)?;
        let repaired = admitted.repair_namespace(name, request.keep.as_deref()).await?;
        Ok(change_response(&admitted, messages::repaired(&repaired)).await)
    }

    async fn stats(&self, request: Request<v1::StatsRequest>) -> GrpcResult<v1::NamespaceStats> {
        let (admitted, namespace, _) = read_in(request, |it| &it.namespace)?;
        let (stats, reservation) = admitted.namespace_stats(namespace).await?;
        Ok(read_response_within(reservation, stats)?)
    }

    async fn forecast(
        &self,
        request: Request<v1::ForecastRequest>,
    ) -> GrpcResult<v1::NamespaceForecast> {
        let (admitted, name, request) = read_in(request, |it| &it.namespace)?;
        let (bucket, count) = (request.bucket.as_ref(), request.count);
        let (forecast, reservation) = admitted.namespace_forecast(name, bucket, count).await?;
        Ok(read_response_within(reservation, forecast)?)
    }
}
