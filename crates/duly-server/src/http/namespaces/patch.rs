//! `PATCH /v1/namespaces/{namespace}`: changes some settings.

use axum::{extract::State, response::Response};
use duly_api::{NamespaceSettings, json::Nulls};
use duly_core::{Invalid, NamespaceName};
use duly_store::namespaces::{Namespace, Put, Secrets};

use super::put::reset;
use crate::{
    http::{App, Problem, body::JsonBody, path::NamespacePath, problem::Refusals, response},
    messages,
};

/// Change some of a namespace's settings.
///
/// An absent field is kept, `null` resets it to its default, a value replaces the whole field (`retry`
/// and `limits` too).
#[utoipa::path(
    patch,
    path = "/v1/namespaces/{namespace}",
    tag = "namespaces",
    params(("namespace" = String, Path, description = "Name of the namespace")),
    request_body(content = NamespaceSettings, content_type = "application/json"),
    responses((status = 200, description = "The namespace as it is now.", body = duly_api::Namespace), Refusals)
)]
pub(crate) async fn patch_namespace(
    State(app): State<App>,
    NamespacePath(name): NamespacePath,
    body: JsonBody,
) -> Result<Response, Problem> {
    let Nulls { value: settings, names } = body.parse().await?;
    if settings == NamespaceSettings::default() && names.is_empty() {
        return Err(Invalid::new("body", "{}", "an object with a field to change").into());
    }
    let namespace = app.patch_namespace(name, settings, &reset(&names)).await?;
    response::ok(&messages::namespace(&namespace))
}

impl App {
    /// Changes some settings.
    pub(crate) async fn patch_namespace(
        &self,
        name: NamespaceName,
        change: NamespaceSettings,
        reset: &[i32],
    ) -> Result<Namespace, Problem> {
        let _turn = self.patches().lock().await;
        let present = self.namespace(name.clone()).await?;
        let settings = Box::new(change.over((*present.settings).clone(), reset)?);
        let put = Put::Replace { settings, secrets: Secrets::Set };
        self.check_settings(&put, Some(&present.settings))?;
        let (namespace, _) = self.store().put_namespace(name, put).await?;
        Ok(namespace)
    }
}
