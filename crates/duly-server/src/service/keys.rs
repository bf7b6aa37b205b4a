//! The keys of callers.
//!
//! 1. One rule decides for every change of a key, whether it is created, changed, rotated or removed:
//!    [`ApiKey::check_change_by`], for the key before the change and for the key after it.
//! 2. A key that permits more than that of the caller is not found, whether or not it exists.
//! 3. A change leaves an administrator who can log in ([`AdminLogin`](duly_core::access::AdminLogin)).
//! 4. A change is based on the keys that the server knows. If another change came first, it is made again on
//!    top of that.

use duly_api::{
    access::{
        CallerInfo, CreateKeyRequest, Key, ListKeysResponse, NewKey, PatchKeyRequest,
        RotateKeyRequest, check_actions, check_namespaces, check_networks,
    },
    json::Nulls,
};
use duly_core::{
    Code, Invalid, Millis,
    access::{
        ApiKey, ChangeRefusal, KEY_SECRETS_MAX, KeyId, KeySecret, LoginPlace, PresentedKey, Subject,
    },
    error_code::Retry,
};
use duly_store::{AccessChange, AccessRecords, ChangeOrigin};
use rand::Rng;

use super::{
    Admitted, App,
    lists::{first_page, page_limit},
    tenants,
};
use crate::{auth::Caller, problem::Problem};

/// Longest time for which an old secret stays valid.
const KEEP_OLD_MAX: Millis = Millis::from_secs(30 * 86_400);
/// Time for which an old secret stays valid if the call does not say: a caller whose response was lost is not locked
/// out.
const KEEP_OLD_DEFAULT: Millis = Millis::from_secs(3_600);
/// Attempts to make a change on top of others.
const TRIES: usize = 20;

/// Returns a new key.
fn generate() -> PresentedKey {
    let mut random = rand::rng();
    PresentedKey::new(KeyId::generate(random.random()), random.random())
}

fn no_key(id: &KeyId) -> Problem {
    let detail = format!("there is no key {id}: GET /v1/keys lists all");
    Problem::new(Code::NotFound, detail)
}

impl Admitted {
    /// Creates a key. Returns the key with its secret, which cannot be shown again.
    pub(crate) async fn create_key(&self, request: CreateKeyRequest) -> Result<NewKey, Problem> {
        let now = self.now();
        let at = |time: Option<duly_api::Time>, field: &str| {
            time.map(|time| time.check(field)).transpose()
        };
        let expires_in = request.expires_in.map(|it| it.check("expires_in")).transpose()?;
        let expires_at = at(request.expires_at, "expires_at")?;
        if expires_in.is_some() && expires_at.is_some() {
            return Err(Invalid::unseen("expires_in", "left out beside expires_at").into());
        }
        let presented = generate();
        let rights = (check_actions(&request.actions)?, check_namespaces(&request.namespaces)?);
        let subject = request.subject.map(|subject| Subject::new(&subject)).transpose()?;
        let key = ApiKey {
            networks: check_networks(&request.networks.unwrap_or_default())?,
            not_before: at(request.not_before, "not_before")?,
            expires_at: expires_at.or_else(|| expires_in.map(|time| now.saturating_add(time))),
            ..ApiKey::new(&presented, request.name, rights, (now, String::new()))
                .with_subject(subject)
        };
        let key =
            self.change_key(&key.id.clone(), |own, _| Ok(key.clone().created_with(own))).await?;
        let secret = key.subject.is_none().then(|| presented.reveal());
        Ok(NewKey { secret, key: Key::from(&key) })
    }

    /// Returns a page of the keys that permit no more than the caller's own.
    pub(crate) fn list_keys(
        &self,
        limit: Option<u32>,
        cursor: Option<&str>,
    ) -> Result<ListKeysResponse, Problem> {
        let limit = page_limit(limit)?;
        let after = cursor
            .map(KeyId::new)
            .transpose()
            .map_err(|invalid| Invalid { field: "cursor".to_owned(), ..invalid })?;
        let records = self.auth.records();
        let is_next =
            |key: &&ApiKey| after.as_ref().is_none_or(|it| key.id > *it) && self.may_see(key);
        let keys = records.keys.values().filter(is_next);
        let (keys, has_more) = first_page(keys.map(Key::from), limit);
        let cursor = keys.last().filter(|_| has_more).map(|key| key.id.clone());
        Ok(ListKeysResponse { keys, cursor })
    }

    /// Returns a key.
    pub(crate) fn get_key(&self, id: &KeyId) -> Result<Key, Problem> {
        let records = self.auth.records();
        let key = records.keys.get(id).filter(|key| self.may_see(key));
        key.map(Key::from).ok_or_else(|| no_key(id))
    }

    /// Changes a key. The names in `patch` are of fields that are removed.
    pub(crate) async fn patch_key(
        &self,
        id: &KeyId,
        patch: Nulls<PatchKeyRequest>,
    ) -> Result<Key, Problem> {
        let Nulls { value: patch, names: nulls } = patch;
        if patch == PatchKeyRequest::default() && nulls.is_empty() {
            return Err(Invalid::new("body", "{}", "an object with a field to change").into());
        }
        let revocation = PatchKeyRequest { disabled: Some(true), ..PatchKeyRequest::default() };
        if self.may_only_revoke() && (patch != revocation || !nulls.is_empty()) {
            return Err(crate::audit::unwritable());
        }
        let is_kept = |name: &&String| !["expires_at", "networks"].contains(&&***name);
        if let Some(name) = nulls.iter().find(is_kept) {
            return Err(Invalid::new(name, "null", "a value, or left out").into());
        }
        let changed = self.change_key(id, |own, present| {
            let mut key = present.cloned().ok_or_else(|| no_key(id))?;
            if let Some(name) = &patch.name {
                key.name.clone_from(name);
            }
            if let Some(actions) = &patch.actions {
                key.actions = check_actions(actions)?;
            }
            if let Some(namespaces) = &patch.namespaces {
                key.namespaces = check_namespaces(namespaces)?;
            }
            if patch.networks.is_some() || nulls.iter().any(|name| name == "networks") {
                key.networks = check_networks(patch.networks.as_deref().unwrap_or_default())?;
            }
            if patch.expires_at.is_some() || nulls.iter().any(|name| name == "expires_at") {
                let time = patch.expires_at.as_ref();
                key.expires_at = time.map(|time| time.check("expires_at")).transpose()?;
            }
            match patch.disabled {
                Some(true) => key.disable_by(own),
                Some(false) => key.enable(),
                None => {}
            }
            Ok(key)
        });
        Ok(Key::from(&changed.await?))
    }

    /// Gives a key a new secret.
    pub(crate) async fn rotate_key(
        &self,
        id: &KeyId,
        request: RotateKeyRequest,
    ) -> Result<NewKey, Problem> {
        let keep =
            request.keep_old.map(|it| it.check_within("keep_old", Millis::ZERO, KEEP_OLD_MAX));
        let keep = keep.transpose()?.unwrap_or(KEEP_OLD_DEFAULT);
        let until = (keep > Millis::ZERO).then(|| self.now().saturating_add(keep));
        let presented = PresentedKey::new(id.clone(), generate().secret());
        let changed = self.change_key(id, |_, present| {
            let mut key = present.cloned().ok_or_else(|| no_key(id))?;
            if key.subject.is_some() {
                let allowed = "a key with a secret: this one has a subject, whose certificate or token is \
                               renewed where it was issued";
                return Err(Invalid::new("id", id, allowed).into());
            }
            key.secrets.truncate(KEY_SECRETS_MAX - 1);
            match until {
                Some(until) => key.secrets.iter_mut().for_each(|old| old.ends_at = Some(until)),
                None => key.secrets.clear(),
            }
            key.secrets.insert(0, KeySecret { hash: presented.hash(), ends_at: None });
            Ok(key)
        });
        Ok(NewKey { key: Key::from(&changed.await?), secret: Some(presented.reveal()) })
    }

    /// Removes a key.
    pub(crate) async fn delete_key(&self, id: &KeyId) -> Result<(), Problem> {
        let deleted = self.change_keys(id, |_, present| match present {
            // Without it its holder may have a wider key, of a group. A disabled key keeps its place.
            Some(key) if self.may_only_revoke() && key.subject.is_some() => {
                let detail = "the audit log cannot be written, and the removal of a key with a subject may leave \
                              its holder another key, of a group: disable it instead";
                Err(Problem::temporary(Code::Unavailable, detail))
            }
            Some(_) => Ok(AccessChange::Delete(id.clone())),
            None => Err(no_key(id)),
        });
        deleted.await.map(drop)
    }

    /// Returns the caller: its key and rights, and its tenant.
    pub(crate) fn whoami(&self) -> CallerInfo {
        let caller = self.caller();
        let (key, tenant) = (caller.key().map(Key::from), caller.tenant());
        let tenant = tenant.map(|it| tenants::shown(it));
        CallerInfo { keys_required: self.auth.is_required(), key, tenant }
    }

    /// Writes a key, and returns it. `next` gets the key of the caller, and the present one.
    async fn change_key(
        &self,
        id: &KeyId,
        next: impl Fn(&ApiKey, Option<&ApiKey>) -> Result<ApiKey, Problem> + Send + Sync,
    ) -> Result<ApiKey, Problem> {
        let records = self
            .change_keys(id, |own, present| Ok(AccessChange::Put(Box::new(next(own, present)?))));
        records.await?.ok_or_else(|| Problem::fault("a key that was written is gone"))
    }

    /// Changes a key, and returns it as it is then. `change` gets the key of the caller, and the present one.
    async fn change_keys(
        &self,
        id: &KeyId,
        change: impl Fn(&ApiKey, Option<&ApiKey>) -> Result<AccessChange, Problem> + Send + Sync,
    ) -> Result<Option<ApiKey>, Problem> {
        self.note(|notes| notes.target = Some(id.to_string()));
        let changed = self.change_records(|own, records| {
            let present = records.keys.get(id);
            let check = |key: &ApiKey, is_present| {
                key.check_change_by(own).map_err(|it| self.no_change(&key.id, is_present, it))
            };
            present.map_or(Ok(()), |key| check(key, true))?;
            let change = match (change(own, present)?, present) {
                (AccessChange::Put(next), Some(before)) => {
                    let id = next.id.clone();
                    let next = next.changed_by(before, own);
                    let next = next.map_err(|refusal| self.no_change(&id, true, refusal))?;
                    AccessChange::Put(Box::new(next))
                }
                (change, _) => change,
            };
            if let AccessChange::Put(next) = &change {
                check(next, false)?;
            }
            Ok(change)
        });
        Ok(changed.await?.keys.get(id).cloned())
    }

    /// Changes the keys and tenants, and returns them as they are then. `change` gets the key of the caller, and the
    /// present records.
    pub(crate) async fn change_records(
        &self,
        change: impl Fn(&ApiKey, &AccessRecords) -> Result<AccessChange, Problem> + Send + Sync,
    ) -> Result<AccessRecords, Problem> {
        if !self.auth.is_required() {
            let detail = "this server requires no keys, which tenants need too, so it cannot know who may create \
                          the first one: stop it and run `duly key create NAME --admin --data DIR`, or set \
                          auth.mode and auth.root_key_file";
            return Err(Problem::new(Code::PermissionDenied, detail));
        }
        for _ in 0..TRIES {
            let records = self.auth.records();
            // The body may have taken long.
            self.check_still_valid()?;
            let own = self.caller().key().ok_or_else(|| self.auth.unauthenticated())?;
            let from = match own.is_admin() {
                true => LoginPlace::Address(self.caller().address()),
                false => LoginPlace::Anywhere,
            };
            let origin = ChangeOrigin::Call(self.auth.admin_login(from));
            let change = change(own, &records)?;
            if let Some(changed) = self.change_access(records.version, change, origin).await? {
                return Ok(changed);
            }
        }
        let detail = "other callers kept changing keys: nothing was done, repeat the call";
        Err(Problem::new(Code::Aborted, detail).with_retry(Retry::Now))
    }

    /// Returns `true` if a key permits no more than the caller's own.
    fn may_see(&self, key: &ApiKey) -> bool {
        match self.caller() {
            Caller::Anyone => true,
            Caller::Unidentified => false,
            Caller::Holder(holder) => key.is_within(holder.key()),
        }
    }

    /// Returns the problem of a change that the caller may not make.
    fn no_change(&self, key: &KeyId, is_present: bool, refusal: ChangeRefusal) -> Problem {
        self.note(|notes| notes.is_denied = true);
        let detail = match refusal {
            ChangeRefusal::Wider if is_present => return no_key(key),
            ChangeRefusal::Wider => format!(
                "key {key} would permit more than your key, or for longer: use a key with the role admin in all \
                 namespaces"
            ),
            ChangeRefusal::Subject => {
                "only an administrator of all namespaces may create, change or remove a \
                                       key with a subject"
                    .to_owned()
            }
            ChangeRefusal::Disabled(by) => format!(
                "key {key} was disabled by {}, who had more rights: have it changed with a key that permits as much, \
                 such as one with the role admin in all namespaces",
                by.map_or_else(
                    || "an administrator".to_owned(),
                    |by| format!("the holder of key {by}")
                )
            ),
            ChangeRefusal::Restricted(by) => format!(
                "the holder of key {by}, who had more rights, took rights, networks or time from key {key}: have \
                 them given back with a key that permits as much, such as one with the role admin in all namespaces"
            ),
        };
        Problem::new(Code::PermissionDenied, detail)
    }
}

impl App {
    /// Uses the keys that the store has now.
    pub(crate) async fn reread_keys(&self) {
        let seen = self.auth.records().version;
        if let Ok(Some(newer)) = self.store.read_access(seen).await {
            self.auth.use_records(newer);
        }
    }

    /// Changes the keys in the store, and uses what the store has then, even if the caller does not wait for
    /// it. Returns `None` if another change came first.
    async fn change_access(
        &self,
        seen: u64,
        change: AccessChange,
        origin: ChangeOrigin,
    ) -> Result<Option<AccessRecords>, Problem> {
        let app = self.clone();
        let task = tokio::spawn(async move {
            let changed = app.store.change_access(seen, change, origin).await;
            match &changed {
                Ok(Some(records)) => app.auth.use_records(records.clone()),
                // After an error in doubt the change may have been made.
                Ok(None) | Err(_) => app.reread_keys().await,
            }
            changed
        });
        let changed = task.await.map_err(|_| Problem::fault("a change of keys ended early"))?;
        Ok(changed?)
    }
}

#[cfg(test)]
mod tests;
