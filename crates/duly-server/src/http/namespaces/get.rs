//! `GET /v1/namespaces/{namespace}` and `GET /v1/namespaces`: return one namespace, or a page of them.

use axum::{extract::State, response::Response};
use duly_api::ListNamespacesResponse;
use duly_core::NamespaceName;
use duly_store::namespaces::Namespace;
use http::{StatusCode, Uri};

use crate::{
    http::{
        App, Problem, path::NamespacePath, problem::Refusals, query::Query, response,
        text::ResponseText, timers::list::page_limit,
    },
    messages,
};

/// Namespaces that are read with one call of the store.
const AT_ONCE: usize = 32;

/// One namespace. Signing secrets are shown as fingerprints only.
#[utoipa::path(
    get,
    path = "/v1/namespaces/{namespace}",
    tag = "namespaces",
    params(("namespace" = String, Path, description = "Name of the namespace")),
    responses((status = 200, description = "The namespace.", body = duly_api::Namespace), Refusals)
)]
pub(crate) async fn get_namespace(
    State(app): State<App>,
    NamespacePath(name): NamespacePath,
) -> Result<Response, Problem> {
    response::ok(&messages::namespace(&app.namespace(name).await?))
}

/// Namespaces in order of their names.
#[utoipa::path(
    get,
    path = "/v1/namespaces",
    tag = "namespaces",
    params(
        ("limit" = Option<u32>, Query, minimum = 1, maximum = 1000, description = "Most namespaces of the page, 1 to 1000, default 100"),
        ("cursor" = Option<String>, Query, description = "Where to go on: the cursor of the page before")
    ),
    responses((status = 200, description = "A page.", body = ListNamespacesResponse), Refusals)
)]
pub(crate) async fn list_namespaces(State(app): State<App>, uri: Uri) -> Result<Response, Problem> {
    let query = Query::read(&uri, &["limit", "cursor"])?;
    let (limit, cursor) = (query.integer("limit")?, query.get("cursor"));
    let mut text = ResponseText::new(app.budget().empty_reservation());
    text.raw(r#"{"namespaces":["#)?;
    let next = app
        .namespaces(limit, cursor, |namespace| text.item(&messages::namespace(namespace)))
        .await?;
    text.raw("]")?;
    if let Some(next) = next {
        text.raw(r#","cursor":"#)?;
        text.value(&next)?;
    }
    text.raw("}")?;
    Ok(text.into_response(StatusCode::OK))
}

impl App {
    /// Returns one namespace.
    pub(crate) async fn namespace(&self, name: NamespaceName) -> Result<Namespace, Problem> {
        match self.store().get_namespace(name.clone()).await? {
            Some(namespace) => Ok(namespace),
            None => Err(Problem::no_namespace(name.as_str())),
        }
    }

    /// Shows a page of namespaces, some at a time, until the next one does not fit. Returns the cursor
    /// of the next page.
    pub(crate) async fn namespaces(
        &self,
        limit: Option<u32>,
        cursor: Option<&str>,
        mut show: impl FnMut(&Namespace) -> Result<(), Problem>,
    ) -> Result<Option<String>, Problem> {
        let mut left = page_limit(limit)?;
        let mut after = cursor
            .map(|text| {
                NamespaceName::new(text).map_err(|mut invalid| {
                    "cursor".clone_into(&mut invalid.field);
                    "the cursor of the page before".clone_into(&mut invalid.allowed);
                    invalid
                })
            })
            .transpose()?;
        let mut shown = None;
        loop {
            // One more than is shown: it tells whether there is another page.
            let count = left.min(AT_ONCE) + 1;
            let found = self.store().list_namespaces(after.clone(), count).await?;
            let is_last = found.len() < count;
            for namespace in found.iter().take(count - 1) {
                match show(namespace) {
                    Ok(()) => shown = Some(namespace.name.clone()),
                    Err(problem) if shown.is_none() => return Err(problem),
                    Err(_) => return Ok(shown.map(|name| name.to_string())),
                }
                left -= 1;
            }
            if is_last {
                return Ok(None);
            }
            if left == 0 {
                return Ok(shown.map(|name| name.to_string()));
            }
            after.clone_from(&shown);
        }
    }
}
