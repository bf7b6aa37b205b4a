//! `duly.v1.Namespaces`: every call on namespaces.

use duly_proto::v1::{self, namespaces_server::Namespaces};
use duly_store::namespaces::{Activity, DeleteMode, Namespace};
use prost::Message;
use tonic::{Request, Response, Status};

use super::{
    namespace,
    outbound::{made, read, read_within},
};
use crate::{
    http::{App, Problem, namespaces::forecast},
    wire::proto::{
        namespace::{SETTINGS, change_in, namespace_out, settings_in},
        operation::integer,
        stats::{forecast_out, stats_out},
        time::{maybe_duration_in, time_in},
    },
};

/// The service.
#[derive(Debug)]
pub(super) struct Service {
    app: App,
}

impl Service {
    /// The service of a server.
    pub(super) const fn new(app: App) -> Self {
        Self { app }
    }

    async fn set(&self, name: &str, activity: Activity) -> Result<v1::Namespace, Problem> {
        let namespace = self.app.store().set_activity(namespace(name)?, activity).await?;
        Ok(namespace_out(&namespace))
    }
}

#[tonic::async_trait]
impl Namespaces for Service {
    async fn put(
        &self,
        request: Request<v1::PutNamespaceRequest>,
    ) -> Result<Response<v1::PutNamespaceResponse>, Status> {
        let request = request.into_inner();
        let name = namespace(&request.namespace)?;
        let settings = settings_in(request.settings).map_err(Problem::from)?;
        let put = self.app.put_namespace(name, settings).await;
        let (namespace, created) = put.map_err(|problem| problem.within(SETTINGS))?;
        let namespace = Some(namespace_out(&namespace));
        Ok(made(&self.app, v1::PutNamespaceResponse { namespace, created }).await)
    }

    async fn patch(
        &self,
        request: Request<v1::PatchNamespaceRequest>,
    ) -> Result<Response<v1::Namespace>, Status> {
        let request = request.into_inner();
        let name = namespace(&request.namespace)?;
        let change = change_in(request.settings, request.reset).map_err(Problem::from)?;
        let patched = self.app.patch_namespace(name, change).await;
        let namespace = patched.map_err(|problem| problem.within(SETTINGS))?;
        Ok(made(&self.app, namespace_out(&namespace)).await)
    }

    async fn get(
        &self,
        request: Request<v1::GetNamespaceRequest>,
    ) -> Result<Response<v1::Namespace>, Status> {
        let namespace = self.app.namespace(namespace(&request.get_ref().namespace)?).await?;
        Ok(read(&self.app, namespace_out(&namespace))?)
    }

    async fn list(
        &self,
        request: Request<v1::ListNamespacesRequest>,
    ) -> Result<Response<v1::ListNamespacesResponse>, Status> {
        let request = request.into_inner();
        let limit = integer(request.limit);
        let mut share = self.app.budget().share();
        let (mut namespaces, mut bytes) = (Vec::new(), 0);
        let show = |namespace: &Namespace| {
            let shown = namespace_out(namespace);
            let with = bytes + shown.encoded_len() + size_of_val(&shown);
            // The message, and its text in a buffer that doubles.
            share.grow_to(3 * with)?;
            bytes = with;
            namespaces.push(shown);
            Ok(())
        };
        let cursor = self.app.namespaces(limit, request.cursor.as_deref(), show).await?;
        Ok(read_within(share, v1::ListNamespacesResponse { namespaces, cursor })?)
    }

    async fn delete(
        &self,
        request: Request<v1::DeleteNamespaceRequest>,
    ) -> Result<Response<v1::DeleteNamespaceResponse>, Status> {
        let request = request.into_inner();
        let mode = if request.force { DeleteMode::Force } else { DeleteMode::IfEmpty };
        self.app.delete_namespace(namespace(&request.namespace)?, mode).await?;
        Ok(made(&self.app, v1::DeleteNamespaceResponse {}).await)
    }

    async fn pause(
        &self,
        request: Request<v1::PauseRequest>,
    ) -> Result<Response<v1::Namespace>, Status> {
        let namespace = self.set(&request.get_ref().namespace, Activity::Paused).await?;
        Ok(made(&self.app, namespace).await)
    }

    async fn resume(
        &self,
        request: Request<v1::ResumeRequest>,
    ) -> Result<Response<v1::Namespace>, Status> {
        let request = request.into_inner();
        let at = request.at.map(|at| time_in("at", at)?.check("at"));
        let at = at.transpose().map_err(Problem::from)?;
        let activity = at.map_or(Activity::Running, Activity::ResumeAt);
        Ok(made(&self.app, self.set(&request.namespace, activity).await?).await)
    }

    async fn repair(
        &self,
        request: Request<v1::RepairNamespaceRequest>,
    ) -> Result<Response<v1::RepairNamespaceResponse>, Status> {
        let request = request.into_inner();
        let name = namespace(&request.namespace)?;
        let repaired = self.app.repair_namespace(name, request.keep.as_deref()).await?;
        let response = v1::RepairNamespaceResponse {
            namespace: Some(namespace_out(&repaired.namespace)),
            restored: repaired.restored,
            pending_lost: repaired.pending_lost,
            dead_lost: repaired.dead_lost,
        };
        Ok(made(&self.app, response).await)
    }

    async fn stats(
        &self,
        request: Request<v1::StatsRequest>,
    ) -> Result<Response<v1::NamespaceStats>, Status> {
        let namespace = namespace(&request.get_ref().namespace)?;
        let (stats, share) = self.app.namespace_stats(namespace).await?;
        Ok(read_within(share, stats_out(stats))?)
    }

    async fn forecast(
        &self,
        request: Request<v1::ForecastRequest>,
    ) -> Result<Response<v1::NamespaceForecast>, Status> {
        let request = request.into_inner();
        let name = namespace(&request.namespace)?;
        let bucket = maybe_duration_in("bucket", request.bucket).map_err(Problem::from)?;
        let count = integer(request.count);
        let asked = forecast::request(name, bucket.as_ref(), count).map_err(Problem::from)?;
        let (forecast, share) = self.app.namespace_forecast(asked).await?;
        Ok(read_within(share, forecast_out(forecast))?)
    }
}
