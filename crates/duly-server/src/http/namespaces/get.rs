//! `GET /v1/namespaces/{namespace}` and `GET /v1/namespaces`.

use axum::{extract::State, response::Response};
use duly_core::NamespaceName;
use duly_store::namespaces::Namespace;
use http::Uri;

use crate::{
    http::{App, Problem, answer, path::InNamespace, problem::Refusals, query::Query},
    wire::{Integer, NamespaceOut, NamespacesOut},
};

/// Most namespaces of one page.
const LIMIT_MAX: u64 = 1_000;
/// Namespaces of a page that does not say how many.
const LIMIT_DEFAULT: u64 = 100;

/// One namespace. Signing secrets are shown as fingerprints only.
#[utoipa::path(
    get,
    path = "/v1/namespaces/{namespace}",
    tag = "namespaces",
    params(("namespace" = String, Path, description = "Name of the namespace")),
    responses((status = 200, description = "The namespace.", body = NamespaceOut), Refusals)
)]
pub(crate) async fn get_namespace(
    State(app): State<App>,
    InNamespace(name): InNamespace,
) -> Result<Response, Problem> {
    answer::ok(&NamespaceOut::from(&app.namespace(name).await?))
}

/// Namespaces in order of their names.
#[utoipa::path(
    get,
    path = "/v1/namespaces",
    tag = "namespaces",
    params(
        ("limit" = Option<u32>, Query, description = "Most namespaces of the page, 1 to 1000, default 100"),
        ("cursor" = Option<String>, Query, description = "Where to go on: the cursor of the page before")
    ),
    responses((status = 200, description = "A page.", body = NamespacesOut), Refusals)
)]
pub(crate) async fn list_namespaces(State(app): State<App>, uri: Uri) -> Result<Response, Problem> {
    let query = Query::read(&uri, &["limit", "cursor"])?;
    let (limit, cursor) = (query.integer("limit")?, query.get("cursor"));
    let (namespaces, cursor) = app.namespaces(limit, cursor).await?;
    answer::ok(&NamespacesOut {
        namespaces: namespaces.iter().map(NamespaceOut::from).collect(),
        cursor: cursor.as_deref(),
    })
}

impl App {
    /// One namespace.
    pub(crate) async fn namespace(&self, name: NamespaceName) -> Result<Namespace, Problem> {
        match self.store().get_namespace(name.clone()).await? {
            Some(namespace) => Ok(namespace),
            None => Err(Problem::no_namespace(name.as_str())),
        }
    }

    /// A page of namespaces, and the cursor of the next one.
    pub(crate) async fn namespaces(
        &self,
        limit: Option<Integer>,
        cursor: Option<&str>,
    ) -> Result<(Vec<Namespace>, Option<String>), Problem> {
        let limit = match limit {
            Some(limit) => limit.within("limit", 1, LIMIT_MAX)?,
            None => LIMIT_DEFAULT,
        };
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let after = cursor
            .map(|text| {
                NamespaceName::new(text).map_err(|mut invalid| {
                    "cursor".clone_into(&mut invalid.field);
                    "the cursor of the page before".clone_into(&mut invalid.allowed);
                    invalid
                })
            })
            .transpose()?;
        // One more than asked for tells whether there is another page.
        let mut namespaces = self.store().list_namespaces(after, limit + 1).await?;
        let has_more = namespaces.len() > limit;
        namespaces.truncate(limit);
        let last = namespaces.last().map(|namespace| namespace.name.to_string());
        Ok((namespaces, last.filter(|_| has_more)))
    }
}
