//! Calls on namespaces: settings, state, deletion, repair. The counts are in the module `counts`.

pub(crate) mod counts;

use axum::{extract::State, response::IntoResponse};
use duly_api::{
    ListNamespacesResponse, NamespaceField, NamespaceSettings, RepairNamespaceResponse,
    ResumeRequest, Words as _, json::Nulls,
};
use duly_core::{Code, Invalid, NamespaceName};
use duly_store::namespaces::{Activity, DeleteMode, Namespace, Put, Repaired, Secrets};
use http::{StatusCode, Uri};

use super::{
    App, Problem,
    body::{JsonBody, MaybeBody, NoBody},
    path::NamespacePath,
    query::Query,
    response::{self, HandlerResult},
    text::ResponseText,
    timers::list::{end_page, page_limit},
};
use crate::{call, messages, tenants::NamespaceAdmission};

/// Namespaces that are read with one call of the store.
const AT_ONCE: usize = 32;

/// One namespace. Signing secrets are shown as fingerprints only.
#[utoipa::path(
    get,
    path = "/v1/namespaces/{namespace}",
    tag = "namespaces",
    responses((status = 200, description = "The namespace.", body = duly_api::Namespace))
)]
pub(crate) async fn get_namespace(
    State(app): State<App>,
    NamespacePath(name): NamespacePath,
) -> HandlerResult {
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
    responses((status = 200, description = "A page.", body = ListNamespacesResponse))
)]
pub(crate) async fn list_namespaces(State(app): State<App>, uri: Uri) -> HandlerResult {
    let query = Query::read(&uri, &["limit", "cursor"])?;
    let (limit, cursor) = (query.integer("limit")?, query.get("cursor"));
    let mut text = ResponseText::new(app.budget().empty_reservation());
    text.raw(r#"{"namespaces":["#)?;
    let next = app
        .namespaces(limit, cursor, |namespace| text.item(&messages::namespace(namespace)))
        .await?;
    end_page(&mut text, next)?;
    text.raw("}")?;
    Ok(text.into_response(StatusCode::OK))
}

/// Write all settings of a namespace.
///
/// An absent field has its default, but absent `signing_secrets` keep the present ones.
#[utoipa::path(
    put,
    path = "/v1/namespaces/{namespace}",
    tag = "namespaces",
    request_body(content = NamespaceSettings, content_type = "application/json"),
    responses(
        (status = 201, description = "It was made.", body = duly_api::Namespace),
        (status = 200, description = "Its settings were replaced.", body = duly_api::Namespace)
    )
)]
pub(crate) async fn put_namespace(
    State(app): State<App>,
    NamespacePath(name): NamespacePath,
    body: JsonBody,
) -> HandlerResult {
    let Nulls { value: settings, names } = body.parse().await?;
    let (namespace, is_new) = app.put_namespace(name, settings, &reset(&names)).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    response::json(status, &messages::namespace(&namespace))
}

/// Returns the settings whose names a JSON body gave as `null`.
fn reset(names: &[String]) -> Vec<i32> {
    let fields = names.iter().filter_map(|name| NamespaceField::parse(name));
    fields.map(i32::from).collect()
}

/// Change some of a namespace's settings.
///
/// An absent field is kept, `null` resets it to its default, a value replaces the whole field (`retry`
/// and `limits` too).
#[utoipa::path(
    patch,
    path = "/v1/namespaces/{namespace}",
    tag = "namespaces",
    request_body(content = NamespaceSettings, content_type = "application/json"),
    responses((status = 200, description = "The namespace as it is now.", body = duly_api::Namespace))
)]
pub(crate) async fn patch_namespace(
    State(app): State<App>,
    NamespacePath(name): NamespacePath,
    body: JsonBody,
) -> HandlerResult {
    let Nulls { value: settings, names } = body.parse().await?;
    if settings == NamespaceSettings::default() && names.is_empty() {
        return Err(Invalid::new("body", "{}", "an object with a field to change").into());
    }
    let namespace = app.patch_namespace(name, settings, &reset(&names)).await?;
    response::ok(&messages::namespace(&namespace))
}

/// Stop a namespace's firing. After the response no claim is granted; scheduling continues.
#[utoipa::path(
    post,
    path = "/v1/namespaces/{namespace}/pause",
    tag = "namespaces",
    responses((status = 200, description = "It is paused.", body = duly_api::Namespace))
)]
pub(crate) async fn pause_namespace(
    State(app): State<App>,
    NamespacePath(name): NamespacePath,
    _body: NoBody,
) -> HandlerResult {
    let namespace = app.store.set_activity(name, Activity::Paused).await?;
    response::ok(&messages::namespace(&namespace))
}

/// Let a namespace fire again, at once or at a time.
///
/// With a time it stays paused until then. A namespace that is not paused stays as it is.
#[utoipa::path(
    post,
    path = "/v1/namespaces/{namespace}/resume",
    tag = "namespaces",
    request_body(content = ResumeRequest, content_type = "application/json"),
    responses((status = 200, description = "It runs, or will.", body = duly_api::Namespace))
)]
pub(crate) async fn resume_namespace(
    State(app): State<App>,
    NamespacePath(name): NamespacePath,
    MaybeBody(body): MaybeBody,
) -> HandlerResult {
    let request: Option<ResumeRequest> = match body {
        Some(body) => Some(body.parse().await?),
        None => None,
    };
    let at = request.and_then(|resume| resume.at).map(|at| at.check("at")).transpose()?;
    let activity = at.map_or(Activity::Running, Activity::ResumeAt);
    let namespace = app.store.set_activity(name, activity).await?;
    response::ok(&messages::namespace(&namespace))
}

/// Delete a namespace with all its timers, tombstones and dead letters.
///
/// A namespace that has pending timers or dead letters is refused unless `force=true`.
#[utoipa::path(
    delete,
    path = "/v1/namespaces/{namespace}",
    tag = "namespaces",
    params(("force" = Option<bool>, Query, description = "`true`: although it has pending timers or dead letters")),
    responses((status = 204, description = "It is gone."))
)]
pub(crate) async fn delete_namespace(
    State(app): State<App>,
    NamespacePath(name): NamespacePath,
    uri: Uri,
) -> HandlerResult {
    let query = Query::read(&uri, &["force"])?;
    let is_forced = query.flag("force")? == Some(true);
    let mode = if is_forced { DeleteMode::Force } else { DeleteMode::IfEmpty };
    app.delete_namespace(name, mode).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// Restore the record of a namespace that its coordinator shard has lost, from the other shards.
///
/// Without a lost record nothing changes. If the shards hold the namespace under several numbers, `keep`
/// names the number that is kept; the timers under the other numbers are lost.
#[utoipa::path(
    post,
    path = "/v1/namespaces/{namespace}/repair",
    tag = "namespaces",
    params(("keep" = Option<String>, Query, description = "Number under which the namespace is kept")),
    responses((status = 200, description = "It wants no repair any more.", body = RepairNamespaceResponse))
)]
pub(crate) async fn repair_namespace(
    State(app): State<App>,
    NamespacePath(name): NamespacePath,
    uri: Uri,
    _body: NoBody,
) -> HandlerResult {
    let query = Query::read(&uri, &["keep"])?;
    let repaired = app.repair_namespace(name, query.get("keep")).await?;
    response::ok(&messages::repaired(&repaired))
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
        let settings = Box::new(settings.over(self.defaults.clone(), &self.defaults, reset)?);
        self.check_settings(&name, &settings, None)?;
        let _turn = self.patches().lock().await;
        let tenants = self.auth.tenants();
        let admitted = match tenants.of_namespace(name.as_str()) {
            Some(tenant) if self.store.get_namespace(name.clone()).await?.is_none() => {
                Some(tenant.admit_namespace()?)
            }
            _ => None,
        };
        let put = self.store.put_namespace(name, Put::Replace { settings, secrets }).await?;
        if put.1 {
            admitted.into_iter().for_each(NamespaceAdmission::keep);
        }
        Ok(put)
    }

    /// Returns one namespace.
    pub(crate) async fn namespace(&self, name: NamespaceName) -> Result<Namespace, Problem> {
        let found = self.store.get_namespace(name.clone()).await?;
        found.ok_or_else(|| Problem::no_namespace(name.as_str()))
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
            let found = self.visible_namespaces(after.clone(), count).await?;
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

    /// Returns at most `count` namespaces after the name `after`: those that the caller may know of.
    async fn visible_namespaces(
        &self,
        mut after: Option<NamespaceName>,
        count: usize,
    ) -> Result<Vec<Namespace>, Problem> {
        let (caller, mut visible) = (call::caller(), Vec::new());
        loop {
            let found = self.store.list_namespaces(after, count).await?;
            let last = found.last().map(|namespace| namespace.name.clone());
            let last = last.filter(|_| found.len() >= count);
            visible.extend(found.into_iter().filter(|it| caller.covers(it.name.as_str())));
            visible.truncate(count);
            let Some(last) = last.filter(|_| visible.len() < count) else {
                return Ok(visible);
            };
            after = Some(last.clone());
            if !caller.covers(last.as_str()) {
                // Between two of the caller's patterns there may be very many names.
                let Some(next) = caller.next_covered(last.as_str()) else {
                    return Ok(visible);
                };
                let exact = self.store.get_namespace(next.clone()).await?;
                visible.extend(exact.filter(|it| caller.covers(it.name.as_str())));
                after = Some(next);
            }
        }
    }

    /// Changes some settings.
    pub(crate) async fn patch_namespace(
        &self,
        name: NamespaceName,
        change: NamespaceSettings,
        reset: &[i32],
    ) -> Result<Namespace, Problem> {
        let _turn = self.patches().lock().await;
        let present = self.present_namespace(name.clone()).await?;
        let settings = Box::new(change.over((*present.settings).clone(), &self.defaults, reset)?);
        self.check_settings(&name, &settings, Some(&present.settings))?;
        let put = Put::Replace { settings, secrets: Secrets::Set };
        let (namespace, _) = self.store.put_namespace(name, put).await?;
        Ok(namespace)
    }

    /// Returns a namespace with the settings that its coordinator shard has.
    pub(crate) async fn present_namespace(
        &self,
        name: NamespaceName,
    ) -> Result<Namespace, Problem> {
        let found = self.namespace(name).await?;
        if found.maybe_outdated {
            let detail = "the coordinator shard of this namespace is unavailable, and the settings in the \
                          other shards may be one change behind: nothing was done";
            return Err(Problem::temporary(Code::Unavailable, detail));
        }
        Ok(found)
    }

    /// Deletes a namespace.
    pub(crate) async fn delete_namespace(
        &self,
        name: NamespaceName,
        mode: DeleteMode,
    ) -> Result<(), Problem> {
        // Without the lock, a patch that has read the namespace would write it back after the deletion.
        let _turn = self.patches().lock().await;
        Ok(self.store.delete_namespace(name, mode).await?)
    }

    /// Restores the record of a namespace.
    pub(crate) async fn repair_namespace(
        &self,
        name: NamespaceName,
        keep: Option<&str>,
    ) -> Result<Repaired, Problem> {
        let _turn = self.patches().lock().await;
        Ok(self.store.repair_namespace(name, keep.map(str::to_owned)).await?)
    }
}
