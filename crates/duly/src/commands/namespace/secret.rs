//! `duly namespace secret`: creates, shows, sets and rotates the secrets that webhooks are signed with.
//!
//! A secret is printed once, when it is created. Secrets on a command line can be seen by other users of
//! the machine and stay in the shell's history, so they come from a file or stdin.

use std::path::PathBuf;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use clap::Subcommand;
use duly_api::{Namespace, NamespaceSettings};
use duly_core::{NamespaceName, namespace::SigningSecret};
use rand::RngCore as _;
use reqwest::Method;
use serde_json::json;

use crate::{
    Outcome,
    args::{NamespaceArg, secret},
    failure::Failure,
    output::{Table, Tone},
    session::Session,
};

/// Bytes of a new secret.
const SECRET_BYTES: usize = 32;

/// Create, show, set and rotate the secrets that webhooks are signed with
///
/// To rotate a secret without a refused delivery: create a new one (`new`), set both, the new one and
/// the old one (`set`), give the new one to the receivers, and then set the new one alone.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Create a new secret and print it; no server is called
    New,
    /// Show the fingerprints of a namespace's secrets; secrets themselves are never shown
    List(NamespaceArg),
    /// Sign with these secrets, and with no other: one, or two during a rotation
    Set {
        #[command(flatten)]
        named: NamespaceArg,
        /// A file with the secrets, whsec_…, one per line; `-` for stdin
        #[arg(long, value_name = "FILE")]
        file: PathBuf,
        /// Allow a change that keeps no secret in use: receivers that know only those refuse every
        /// delivery until they know a new one
        #[arg(long)]
        at_once: bool,
    },
    /// Stop signing
    Clear(NamespaceArg),
}

/// Runs the command.
pub(super) async fn run(args: Args, session: &Session) -> Outcome {
    match args.action {
        Action::New => new(session),
        Action::List(named) => {
            let known = known(&named.namespace, session).await?;
            shown(&known, &known, session)
        }
        Action::Set { named, file, at_once } => {
            let secrets = secret::from_file(&file)?;
            let known = known(&named.namespace, session).await?;
            let new: Vec<_> = secrets.iter().map(SigningSecret::fingerprint).collect();
            let keeps_one = known.is_empty() || new.iter().any(|one| known.contains(one));
            if !keeps_one && !at_once {
                return Err(Failure::coded(
                    "no_secret_stays",
                    "none of the secrets in use would stay, and receivers that know only those \
                     would refuse every delivery: set the new and the old one together, give the \
                     new one to the receivers, and then set it alone; --at-once skips this check",
                ));
            }
            put(&named.namespace, &secrets, &known, session).await
        }
        Action::Clear(named) => {
            let known = known(&named.namespace, session).await?;
            put(&named.namespace, &[], &known, session).await
        }
    }
}

fn new(session: &Session) -> Outcome {
    let mut bytes = [0; SECRET_BYTES];
    rand::rng().fill_bytes(&mut bytes);
    let text = format!("whsec_{}", STANDARD.encode(bytes));
    let secret = SigningSecret::new(&text).map_err(Failure::new)?;
    let document = json!({ "secret": text, "fingerprint": secret.fingerprint() });
    session.printer.document(&document.to_string(), || Ok(text))
}

/// Returns the fingerprints of the secrets in use.
async fn known(namespace: &NamespaceName, session: &Session) -> Result<Vec<String>, Failure> {
    let response = session.http.get(namespace, &[]).send().await?;
    let known: Namespace = response.parse()?;
    Ok(known.signing_secret_fingerprints)
}

/// Sets the secrets, and prints the changes.
async fn put(
    namespace: &NamespaceName,
    secrets: &[SigningSecret],
    before: &[String],
    session: &Session,
) -> Outcome {
    let call = session.http.namespace(Method::PATCH, namespace, &[]);
    let signing_secrets = Some(secret::revealed(secrets));
    let change = NamespaceSettings { signing_secrets, ..NamespaceSettings::default() };
    let response = call.body(&change).send().await?;
    let now: Namespace = response.parse()?;
    shown(before, &now.signing_secret_fingerprints, session)
}

/// Prints the fingerprints before and after a change.
fn shown(before: &[String], now: &[String], session: &Session) -> Outcome {
    let printer = session.printer;
    let document = json!({ "signing_secret_fingerprints": now });
    printer.document(&document.to_string(), || {
        let gone = before.iter().filter(|one| !now.contains(one));
        let rows: Vec<_> = now
            .iter()
            .map(|one| (one, if before.contains(one) { "in use" } else { "in use, new" }))
            .chain(gone.map(|one| (one, "no longer in use")))
            .collect();
        if rows.is_empty() {
            return Ok("none: webhooks are not signed".to_owned());
        }
        let mut table = Table::new(&["fingerprint", "state"]);
        for (fingerprint, state) in rows {
            let tone = if now.contains(fingerprint) { Tone::Plain } else { Tone::Faint };
            table.row(tone, [fingerprint.clone(), state.to_owned()]);
        }
        Ok(table.text(printer.screen))
    })
}
