//! `duly namespace secret`: makes, shows, sets and rotates the secrets that webhooks are signed with.
//!
//! A secret is shown once, where it is made. Secrets on a command line can be seen by other users of
//! the machine and stay in the shell's history, so they come from a file or stdin as well.

use std::path::PathBuf;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use clap::Subcommand;
use duly_core::{
    NamespaceName,
    namespace::{SIGNING_SECRETS_MAX, SigningSecret},
};
use rand::RngCore as _;
use reqwest::Method;
use serde::Deserialize;
use serde_json::json;

use crate::{
    Outcome,
    args::{
        input,
        named::Named,
        secret::{self, Secret},
    },
    cli::Session,
    failure::Failure,
    output::{
        table::{Column, Table},
        terminal::Tone,
        text,
    },
};

/// Bytes of a new secret.
const SECRET_BYTES: usize = 32;

/// Make, show, set and rotate the secrets that webhooks are signed with
///
/// To rotate one without a delivery that is refused: make a new one (`new`), set both, the new one
/// and the old one (`set`), give the new one to the receivers, and then set the new one alone.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Make a new secret and print it; no server is asked
    New,
    /// Show the fingerprints of a namespace's secrets; secrets themselves are never shown
    List(Named),
    /// Sign with these secrets, and with no other: one, or two during a rotation
    #[command(
        override_usage = "duly namespace secret set [OPTIONS] <NAMESPACE> <SECRET> [SECRET]\n       duly namespace secret set [OPTIONS] <NAMESPACE> --file <FILE>"
    )]
    Set {
        #[command(flatten)]
        named: Named,
        #[command(flatten)]
        secrets: Secrets,
        /// Though no secret that is in use stays: receivers that know only those refuse every
        /// delivery until they know a new one
        #[arg(long)]
        at_once: bool,
    },
    /// Sign no more
    Clear(Named),
}

#[derive(clap::Args)]
#[group(required = true, multiple = false)]
struct Secrets {
    /// The secrets, whsec_…
    #[arg(value_name = "SECRET", value_parser = secret::parse, num_args = 1..)]
    typed: Vec<Secret>,
    /// A file that holds the secrets, one a line, `-` for stdin
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
}

/// What is told of the secrets.
#[derive(Deserialize)]
struct Known {
    signing_secret_fingerprints: Vec<String>,
}

/// Runs it.
pub(super) async fn run(args: Args, session: &Session) -> Outcome {
    match args.action {
        Action::New => new(session),
        Action::List(named) => {
            let known = known(&named.namespace, session).await?;
            shown(&known, &known, session)
        }
        Action::Set { named, secrets, at_once } => {
            let secrets = secrets.read()?;
            let known = known(&named.namespace, session).await?;
            let new: Vec<_> = secrets.iter().map(SigningSecret::fingerprint).collect();
            let keeps_one = known.is_empty() || new.iter().any(|one| known.contains(one));
            if !keeps_one && !at_once {
                return Err(Failure::coded(
                    "no_secret_stays",
                    "none of the secrets in use would stay, and receivers that know only those would \
                     refuse every delivery: set the new and the old one together, give the new one to \
                     the receivers, and set it alone then; --at-once does without",
                ));
            }
            let secrets: Vec<_> = secrets.iter().map(SigningSecret::reveal).collect();
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

/// The fingerprints of the secrets in use.
async fn known(namespace: &NamespaceName, session: &Session) -> Result<Vec<String>, Failure> {
    let answer = session.http.namespace(Method::GET, namespace, &[]).send().await?;
    let known: Known = answer.parse()?;
    Ok(known.signing_secret_fingerprints)
}

/// Sets the secrets, and says what that changed.
async fn put(
    namespace: &NamespaceName,
    secrets: &[&str],
    before: &[String],
    session: &Session,
) -> Outcome {
    let call = session.http.namespace(Method::PATCH, namespace, &[]);
    let answer = call.body(&json!({ "signing_secrets": secrets })).send().await?;
    let now: Known = answer.parse()?;
    shown(before, &now.signing_secret_fingerprints, session)
}

/// The fingerprints that were there and that are there now.
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
        let mut table = Table::new([Column::Whole("fingerprint"), Column::Whole("state")]);
        for (fingerprint, state) in rows {
            let tone = if now.contains(fingerprint) { Tone::Plain } else { Tone::Faint };
            table.row(tone, [fingerprint.clone(), state.to_owned()]);
        }
        Ok(table.text(printer.screen()))
    })
}

impl Secrets {
    fn read(self) -> Result<Vec<SigningSecret>, Failure> {
        let Some(path) = self.file else {
            if self.typed.len() > SIGNING_SECRETS_MAX {
                return Err(Failure::usage("too many secrets: give one, or two during a rotation"));
            }
            return secret::checked("SECRET", &self.typed);
        };
        let text = input::text(&path, "secrets")?;
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let secrets: Result<Vec<_>, _> = lines.map(SigningSecret::new).collect();
        let name = input::name(&path);
        let secrets = secrets.map_err(|invalid| {
            Failure::new(format_args!("each line of {name} must be {}", invalid.allowed))
        })?;
        if secrets.is_empty() || secrets.len() > SIGNING_SECRETS_MAX {
            let found = text::count(u64::try_from(secrets.len()).unwrap_or(u64::MAX), "secret");
            return Err(Failure::new(format_args!(
                "{name} holds {found}: it must hold one, or two during a rotation"
            )));
        }
        Ok(secrets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_hold_one_or_two_secrets_and_errors_do_not_show_them() {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let path = directory.path().join("secrets");
        let read = |text: &str| {
            std::fs::write(&path, text).expect("written");
            Secrets { typed: Vec::new(), file: Some(path.clone()) }.read()
        };
        let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
        assert_eq!(read(&format!("{secret}\n\n")).expect("one").len(), 1);
        assert_eq!(read(&format!("{secret}\r\n {secret}")).expect("two").len(), 2);
        let refused = read("hunter2\n").expect_err("no secret");
        assert!(!format!("{refused:?}").contains("hunter2"), "{refused:?}");
        assert!(read("").is_err());
        assert!(read(&format!("{secret}\n{secret}\n{secret}\n")).is_err());
    }
}
