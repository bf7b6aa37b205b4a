//! `duly key`: creates, shows, rotates and removes keys of callers. `duly whoami`: the key of the caller.
//!
//! 1. A key is printed once, when it is created or rotated.
//! 2. `create --data` and `confirm` work on a data directory that no server has open, and `--config` on the
//!    store of a configuration: so the first administrator comes from someone who may write there.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::Subcommand;
use duly_api::{
    Duration, Time,
    access::{
        CallerInfo, CreateKeyRequest, Key, ListKeysResponse, NewKey, PatchKeyRequest,
        RotateKeyRequest, check_actions, check_namespaces, check_networks,
    },
};
use duly_core::{
    Invalid, Millis, Timestamp,
    access::{ApiKey, KeyId, PresentedKey, Subject},
    env::Clock as _,
};
use duly_server::Config;
use duly_store_embedded::{
    EmbeddedStore, OpenError, Options, SystemClock,
    access_file::{self, AccessChange, AccessRecords, ChangeOrigin, RestoreState},
};
use rand::Rng as _;
use reqwest::Method;
use serde_json::json;

use super::tenant;
use crate::{
    Outcome,
    args::{Confirm, values},
    configured,
    failure::Failure,
    http::Hint,
    output::{Printer, Table, Tone, note, table, when},
    runtime::block_on,
    session::Session,
};

/// Create, show, rotate and remove keys of callers
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Print a new key for the file of auth.root_key_file; no server is called
    Generate,
    Create(Box<CreateArgs>),
    /// List keys, without their secrets
    #[command(visible_alias = "ls")]
    List,
    /// Show a key, without its secret
    Get(KeyArg),
    /// Give a key a new secret, and print it
    Rotate {
        #[command(flatten)]
        key: KeyArg,
        /// Time for which the old secret stays valid, at most 30d; 1h without it, and 0s ends it at once
        #[arg(long, value_name = "TIME", value_parser = values::duration)]
        keep_old: Option<Millis>,
    },
    Disable(DisableArgs),
    /// Enable a disabled key again
    Enable(KeyArg),
    /// Remove a key for good
    #[command(visible_alias = "rm")]
    Delete {
        #[command(flatten)]
        key: KeyArg,
        #[command(flatten)]
        confirm: Confirm,
    },
    /// Confirm the keys of a data directory that was restored from a backup
    ///
    /// A key that was revoked after the backup would work again, so restored keys permit nothing until
    /// then. Delete or rotate such keys next. No server may have the directory open.
    Confirm {
        /// The data directory
        #[arg(long, value_name = "DIR", default_value = "./duly-data")]
        data: PathBuf,
    },
}

/// Make a key permit nothing until it is enabled
#[derive(clap::Args)]
struct DisableArgs {
    /// Id of the key: the ten characters after `duly_`
    #[arg(value_name = "ID", value_parser = key_id, required_unless_present = "all")]
    id: Option<KeyId>,
    /// Disable every key of a store in Redis, after its data were copied or restored; create a new
    /// administrator next. No server is called
    #[arg(long, conflicts_with = "id", requires = "config")]
    all: bool,
    /// The configuration file of a server, which names the store (store.url)
    #[arg(long, value_name = "FILE", requires = "all", conflicts_with = "id")]
    config: Option<PathBuf>,
    #[command(flatten)]
    confirm: Confirm,
}

/// The id of a key.
#[derive(clap::Args)]
struct KeyArg {
    /// Id of the key: the ten characters after `duly_`
    #[arg(value_name = "ID", value_parser = key_id)]
    id: KeyId,
}

/// Create a key and print it; it cannot be shown again
///
/// The key of the command must permit all that the new key permits. The first administrator has none:
/// create it with --data while no server has the data directory open, with --config in a store that
/// servers share, or with the key of auth.root_key_file.
#[derive(clap::Args)]
struct CreateArgs {
    /// A name for people
    name: String,
    /// Actions or roles that it permits: schedule, consume, read, payload, operate, namespace, transfer,
    /// metrics, store, keys; producer, consumer, viewer, operator, admin
    #[arg(long, value_name = "ACTION,…", value_delimiter = ',', required_unless_present = "admin")]
    allow: Vec<String>,
    /// Namespaces in which it permits them: names, or beginnings of names with `*`
    #[arg(
        long,
        value_name = "PATTERN,…",
        value_delimiter = ',',
        required_unless_present = "admin"
    )]
    namespace: Vec<String>,
    /// Every action in every namespace
    #[arg(long, conflicts_with_all = ["allow", "namespace"])]
    admin: bool,
    /// Networks from which it may be used, such as 10.0.0.0/8; all without it
    #[arg(long, value_name = "NETWORK,…", value_delimiter = ',')]
    network: Vec<String>,
    /// A subject of certificates (cert:URI, cert:DNS-NAME) or of tokens (jwt:sub:SUBJECT,
    /// jwt:group:GROUP); then the key has no secret, and who proves to be the subject holds it
    #[arg(long, value_name = "SUBJECT")]
    subject: Option<String>,
    /// Time from now after which it permits nothing
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    expires: Option<Millis>,
    /// A data directory that no server has open; it is created if there is none. No server is called
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// The configuration file of a server: the key is created in its store (store.url), also beside
    /// running servers, or in its data directory (store.data). No server is called
    #[arg(long, value_name = "FILE", conflicts_with = "data")]
    config: Option<PathBuf>,
}

impl Args {
    /// Returns `true` if the command changes nothing.
    pub(crate) const fn only_reads(&self) -> bool {
        matches!(self.action, Action::List | Action::Get(_))
    }
}

fn key_id(text: &str) -> Result<KeyId, String> {
    KeyId::new(text).map_err(|invalid| format!("it must be {}", invalid.allowed))
}

/// Runs the command.
pub(crate) fn run(
    args: Args,
    printer: Printer,
    session: impl FnOnce() -> Result<Session, Failure>,
) -> Outcome {
    match args.action {
        Action::Generate => {
            let key = generate();
            let document = json!({ "secret": key.reveal(), "id": key.id.as_str() });
            printer.aloud().document(&document.to_string(), || Ok(key.reveal()))
        }
        Action::Create(args) => match (args.data.clone(), args.config.clone()) {
            (Some(data), _) => create_offline(*args, Place::Directory(data), printer),
            (None, Some(file)) => create_offline(*args, Place::of_config(file)?, printer),
            (None, None) => block_on(async { create(*args, &session()?).await }),
        },
        Action::Disable(DisableArgs { all: true, config: Some(file), confirm, .. }) => {
            disable_all(file, &confirm, printer)
        }
        Action::Confirm { data } => {
            let records = access_file::confirm(&data).map_err(unusable)?;
            let document = json!({ "keys": records.keys.len() });
            printer.document(&document.to_string(), || {
                Ok(format!("{} keys are confirmed\n", records.keys.len()))
            })
        }
        action => block_on(async { call(action, &session()?).await }),
    }
}

/// Hints after a refusal.
const HINTS: &[Hint] = &[("not_found", "`duly key list` shows the keys")];

async fn call(action: Action, session: &Session) -> Outcome {
    let key =
        |method, id: &KeyId| session.http.service(method, &["keys", id.as_str()]).hints(HINTS);
    let disable = |id: &KeyId, disabled| {
        let patch = PatchKeyRequest { disabled: Some(disabled), ..PatchKeyRequest::default() };
        key(Method::PATCH, id).body(&patch)
    };
    match action {
        Action::List => list(session).await,
        Action::Get(KeyArg { id }) => print_key(session, key(Method::GET, &id)).await,
        Action::Disable(DisableArgs { id, .. }) => match id {
            Some(id) => print_key(session, disable(&id, true)).await,
            None => Ok(()),
        },
        Action::Enable(KeyArg { id }) => print_key(session, disable(&id, false)).await,
        Action::Rotate { key: KeyArg { id }, keep_old } => {
            let rotate = session.http.service(Method::POST, &["keys", id.as_str(), "rotate"]);
            let rotate = rotate.hints(HINTS);
            let response = rotate
                .body(&RotateKeyRequest { keep_old: keep_old.map(Duration::from) })
                .send()
                .await?;
            print_new(&response.parse()?, session.printer)
        }
        Action::Delete { key: KeyArg { id }, confirm } => {
            if confirm.is_needed() {
                let place = session.http.place();
                Confirm::ask(&format!(
                    "Delete key {id} at {place}? Its callers are refused from then on."
                ))?;
            }
            key(Method::DELETE, &id).send().await?;
            session.printer.document(&json!({ "deleted": id.as_str() }).to_string(), || {
                Ok(format!("key {id} is deleted at {}\n", session.http.place()))
            })
        }
        Action::Generate | Action::Create(_) | Action::Confirm { .. } => Ok(()),
    }
}

async fn create(args: CreateArgs, session: &Session) -> Outcome {
    let (actions, namespaces) = args.rights();
    let request = CreateKeyRequest {
        name: args.name,
        actions,
        namespaces,
        networks: (!args.network.is_empty()).then_some(args.network),
        expires_in: args.expires.map(Duration::from),
        subject: args.subject,
        ..CreateKeyRequest::default()
    };
    let response = session.http.service(Method::POST, &["keys"]).body(&request).send().await?;
    print_new(&response.parse()?, session.printer)
}

impl CreateArgs {
    /// Returns the actions and the patterns of namespaces.
    fn rights(&self) -> (Vec<String>, Vec<String>) {
        if self.admin {
            return (vec!["admin".to_owned()], vec!["*".to_owned()]);
        }
        (self.allow.clone(), self.namespace.clone())
    }
}

/// The store that a command changes without a server.
enum Place {
    /// A data directory that no server has open.
    Directory(PathBuf),
    /// A store that servers share.
    Shared(Box<Config>),
}

impl Place {
    /// Returns the store of a configuration file.
    fn of_config(file: PathBuf) -> Result<Self, Failure> {
        let config = configured::load(&file)?;
        Ok(match config.store.data_dir() {
            Some(data) => Self::Directory(data.to_owned()),
            None => Self::Shared(Box::new(config)),
        })
    }
}

fn create_offline(args: CreateArgs, place: Place, printer: Printer) -> Outcome {
    let (actions, namespaces) = args.rights();
    let now = SystemClock.now();
    let presented = generate();
    let built = || -> Result<ApiKey, Invalid> {
        let rights = (check_actions(&actions)?, check_namespaces(&namespaces)?);
        Ok(ApiKey {
            networks: check_networks(&args.network)?,
            expires_at: args.expires.map(|expires| now.saturating_add(expires)),
            ..ApiKey::new(&presented, args.name, rights, (now, "offline".to_owned()))
                .with_subject(args.subject.map(|subject| Subject::new(&subject)).transpose()?)
        })
    };
    let key = built().map_err(Failure::usage)?;
    let put = AccessChange::Put(Box::new(key.clone()));
    match place {
        Place::Directory(data) => put_in_directory(&data, put, now)?,
        Place::Shared(config) => {
            let is_missing = |records: &AccessRecords| !records.keys.contains_key(&key.id);
            let put_once = |records: &AccessRecords| is_missing(records).then(|| put.clone());
            block_on(change_shared(&config, put_once))?;
        }
    }
    let secret = key.subject.is_none().then(|| presented.reveal());
    print_new(&NewKey { secret, key: Key::from(&key) }, printer)
}

/// Makes a change in a data directory, which is created if there is none.
fn put_in_directory(data: &Path, put: AccessChange, now: Timestamp) -> Outcome {
    if is_empty(data) {
        let store = EmbeddedStore::open_dir(data, Options::default(), Arc::new(SystemClock));
        store.map_err(unusable)?.close();
    }
    let edited =
        access_file::edit(data, |records| records.changed(put, ChangeOrigin::Offline, now));
    if edited.map_err(unusable)?.restore == RestoreState::Unconfirmed {
        note(
            "the directory was restored from a backup: run `duly key confirm --data DIR` too, or no key is valid",
        );
    }
    Ok(())
}

/// Makes changes in a store that servers share, until `next` returns none. Returns their number.
async fn change_shared(
    config: &Config,
    next: impl Fn(&AccessRecords) -> Option<AccessChange>,
) -> Result<usize, Failure> {
    let store = duly_server::open_shared(config).await.map_err(Failure::new)?;
    let store = store.expect("the configuration names a store that servers share");
    let mut count = 0;
    loop {
        let records = store.read_access(u64::MAX).await.map_err(Failure::new)?.unwrap_or_default();
        let Some(change) = next(&records) else { return Ok(count) };
        let changed = store.change_access(records.version, change, ChangeOrigin::Offline).await;
        count += usize::from(changed.map_err(Failure::new)?.is_some());
    }
}

/// Disables every key of a store that servers share.
fn disable_all(file: PathBuf, confirm: &Confirm, printer: Printer) -> Outcome {
    let shown = file.display().to_string();
    let Place::Shared(config) = Place::of_config(file)? else {
        return Err(Failure::usage(format_args!(
            "--all is for a store in Redis, and {shown} names a data directory: keys that were restored there \
             permit nothing until `duly key confirm`"
        )));
    };
    if confirm.is_needed() {
        Confirm::ask(&format!(
            "Disable every key of the store of {shown}? All callers are refused from then on."
        ))?;
    }
    let disable_one = |records: &AccessRecords| {
        let enabled = records.keys.values().find(|key| !key.disabled)?;
        Some(AccessChange::Put(Box::new(ApiKey { disabled: true, ..enabled.clone() })))
    };
    let count = block_on(change_shared(&config, disable_one))?;
    printer.document(&json!({ "disabled": count }).to_string(), || {
        Ok(format!(
            "{count} keys of the store of {shown} are disabled; create an administrator with `duly key create`\n"
        ))
    })
}

/// Returns `true` if a directory is missing or empty: a store can be created there.
fn is_empty(path: &Path) -> bool {
    match fs::read_dir(path) {
        Ok(mut names) => names.next().is_none(),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

fn unusable(error: OpenError) -> Failure {
    Failure::new(error).with_note(
        "--data names the data directory, which no running server has open; to change the keys of a \
         running server, leave --data out",
    )
}

/// Returns a new key.
fn generate() -> PresentedKey {
    let mut random = rand::rng();
    PresentedKey::new(KeyId::generate(random.random()), random.random())
}

fn print_new(new: &NewKey, printer: Printer) -> Outcome {
    let document = serde_json::to_string(new).expect("messages are JSON");
    let Key { id, actions, namespaces, .. } = &new.key;
    let (actions, namespaces) = (actions.join(", "), namespaces.join(", "));
    let Some(secret) = &new.secret else {
        return printer.document(&document, || {
            Ok(format!("key {id} permits its subject {actions} in {namespaces}\n"))
        });
    };
    note(&format!(
        "key {id} permits {actions} in {namespaces}; keep the secret, it cannot be shown again"
    ));
    // Also with --quiet: it cannot be shown again.
    printer.aloud().document(&document, || Ok(secret.clone()))
}

async fn print_key(session: &Session, call: crate::http::Call<'_>) -> Outcome {
    let screen = session.printer.screen;
    session.print(call, |key: Key| table::of_pairs(screen, pairs(&key))).await
}

/// Runs `duly whoami`.
pub(crate) async fn whoami(session: &Session) -> Outcome {
    let screen = session.printer.screen;
    let text = |who: CallerInfo| match who.key {
        Some(key) => {
            let tenant = who.tenant.as_ref().map(tenant::pairs).unwrap_or_default();
            table::of_pairs(screen, pairs(&key).into_iter().chain(tenant))
        }
        None => "the server requires no key: every caller may do everything\n".to_owned(),
    };
    session.print(session.http.service(Method::GET, &["whoami"]), text).await
}

/// Returns the fields of a key for people.
fn pairs(key: &Key) -> Vec<(String, String)> {
    let now = when::now();
    let time = |time: &Option<Time>| {
        time.as_ref().map(|time| when::with_distance(time, now)).unwrap_or_default()
    };
    let pairs = [
        ("id", key.id.clone()),
        ("name", key.name.clone()),
        ("actions", key.actions.join(", ")),
        ("namespaces", key.namespaces.join(", ")),
        ("subject", key.subject.clone().unwrap_or_default()),
        ("networks", key.networks.as_ref().map_or_else(String::new, |it| it.join(", "))),
        ("not before", time(&key.not_before)),
        ("expires", time(&key.expires_at)),
        ("disabled", if key.disabled { "yes".to_owned() } else { String::new() }),
        ("old secret until", time(&key.old_secret_until)),
        ("created", time(&key.created_at)),
        ("created by", key.created_by.clone()),
    ];
    let pairs = pairs.into_iter().filter(|(_, value)| !value.is_empty());
    pairs.map(|(name, value)| (name.to_owned(), value)).collect()
}

async fn list(session: &Session) -> Outcome {
    let (mut keys, mut cursor) = (Vec::new(), None);
    loop {
        let mut query = vec![("limit", "1000".to_owned())];
        query.extend(cursor.take().map(|cursor| ("cursor", cursor)));
        let call = session.http.service(Method::GET, &["keys"]).query(&query);
        let page: ListKeysResponse = call.send().await?.parse()?;
        keys.extend(page.keys);
        cursor = page.cursor;
        if cursor.is_none() {
            break;
        }
    }
    let document = json!({ "keys": keys }).to_string();
    session.printer.document(&document, || {
        let mut table =
            Table::new(&["id", "name", "subject", "actions", "namespaces", "expires", "state"]);
        for key in &keys {
            let end = key.expires_at.as_ref().and_then(|end| end.check("").ok());
            let (state, tone) = match (key.disabled, end.is_some_and(|end| end <= when::now())) {
                (true, _) => ("disabled", Tone::Warning),
                (false, true) => ("expired", Tone::Warning),
                (false, false) => ("enabled", Tone::Plain),
            };
            let expires = key.expires_at.as_ref().map(ToString::to_string).unwrap_or_default();
            let (actions, namespaces) = (key.actions.join(","), key.namespaces.join(","));
            let subject = key.subject.clone().unwrap_or_default();
            let cells = [key.id.clone(), key.name.clone(), subject, actions, namespaces, expires];
            table.row(tone, cells.into_iter().chain([state.to_owned()]));
        }
        Ok(table.text(session.printer.screen))
    })
}
