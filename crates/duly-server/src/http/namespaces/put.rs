//! `PUT /v1/namespaces/{namespace}`: replaces all settings.

use axum::{extract::State, response::Response};
use duly_api::{NamespaceField, NamespaceSettings, Words as _, json::Nulls};
use duly_core::{NamespaceName, Settings};
use duly_store::namespaces::{Namespace, Put, Secrets};
use http::StatusCode;

use crate::{
    http::{App, Problem, body::JsonBody, path::NamespacePath, problem::Refusals, response},
    messages,
};

/// Write all settings of a namespace.
///
/// An absent field has its default, but absent `signing_secrets` keep the present ones.
#[utoipa::path(
    put,
    path = "/v1/namespaces/{namespace}",
    tag = "namespaces",
    params(("namespace" = String, Path, description = "Name of the namespace")),
    request_body(content = NamespaceSettings, content_type = "application/json"),
    responses(
        (status = 201, description = "It was made.", body = duly_api::Namespace),
        (status = 200, description = "Its settings were replaced.", body = duly_api::Namespace),
        Refusals
    )
)]
pub(crate) async fn put_namespace(
    State(app): State<App>,
    NamespacePath(name): NamespacePath,
    body: JsonBody,
) -> Result<Response, Problem> {
    let Nulls { value: settings, names } = body.parse().await?;
    let (namespace, is_new) = app.put_namespace(name, settings, &reset(&names)).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    response::json(status, &messages::namespace(&namespace))
}

/// Returns the settings whose names a JSON body gave as `null`.
pub(super) fn reset(names: &[String]) -> Vec<i32> {
    let fields = names.iter().filter_map(|name| NamespaceField::parse(name));
    fields.map(i32::from).collect()
}

impl App {
    /// Replaces all settings. Returns the namespace, and `true` if it is new.
    pub(crate) async fn put_namespace(
        &self,
        name: NamespaceName,
        settings: NamespaceSettings,
        reset: &[i32],
    ) -> Result<(Namespace, bool), Problem> {
        let is_secret = |field: &i32| *field == i32::from(NamespaceField::SigningSecrets);
        let keeps = settings.signing_secrets.is_none() && !reset.iter().any(is_secret);
        let secrets = if keeps { Secrets::Keep } else { Secrets::Set };
        let settings = Box::new(settings.over(Settings::default(), reset)?);
        let put = Put::Replace { settings, secrets };
        self.check_settings(&put, None)?;
        let _turn = self.patches().lock().await;
        Ok(self.store().put_namespace(name, put).await?)
    }
}
