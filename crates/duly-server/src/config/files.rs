//! What a configuration says about files is compared with what is there: certificates that cannot be
//! read, a file where a directory is meant. All of it at once, each with its place, like every other
//! fault; nothing is made or changed.
//!
//! Apart from the rest, since `config show` says what is configured also where the files are not.

use std::{
    fs,
    path::{Path, PathBuf},
};

use duly_sink::http::options::{ClientFiles, Credentials, TlsFiles};

use super::{effective::Gathered, keys, value::Value};

/// Where a store and backups go.
const DIRECTORIES: [&str; 2] = ["store.data", "store.backup_dir"];
const CA: &str = "webhook.ca_file";
const CERTIFICATE: &str = "webhook.client_certificate_file";
const KEY: &str = "webhook.client_key_file";
const CREDENTIALS: &str = "webhook.proxy_credentials_file";
const PASSWORD: &str = "store.password_file";
const STORE_CA: &str = "store.ca_file";

/// Notes what cannot be used. Nothing of what is in a file is said.
pub(super) fn check(gathered: &mut Gathered) {
    let has_directories = !matches!(
        gathered.values.get("store.url").map(|effective| &effective.value),
        Some(Value::Store(Some(_)))
    );
    for key in DIRECTORIES.into_iter().filter(|_| has_directories) {
        if let Some(path) = path(gathered, key)
            && let Some(file) = path.ancestors().find(|above| above.exists() && !above.is_dir())
        {
            let seen = if file == path { "a file".to_owned() } else { below(file) };
            refuse(gathered, key, &path, &seen, "a directory, or a path where one can be made");
        }
    }
    for error in duly_sink::http::check_files(&tls_files(gathered)) {
        if let duly_sink::Error::File { key, path, reason, .. } = error {
            refuse(gathered, key, &path, &reason, "a file in PEM that can be used");
        }
    }
    if let Some(path) = path(gathered, CREDENTIALS)
        && let Err(reason) = credentials(&path)
    {
        let allowed = "a file that holds one line, user:password";
        refuse(gathered, CREDENTIALS, &path, &reason, allowed);
    }
    if let Some(path) = path(gathered, PASSWORD)
        && let Err(reason) = password(&path)
    {
        refuse(gathered, PASSWORD, &path, &reason, "a file that holds one line, the password");
    }
    if let Some(path) = path(gathered, STORE_CA)
        && let Err(reason) = authorities(&path)
    {
        refuse(gathered, STORE_CA, &path, &reason, "a file in PEM that can be used");
    }
}

/// Reads the password of a store.
///
/// # Errors
/// Why not, without anything of what is in the file.
pub(crate) fn password(path: &Path) -> Result<String, String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let mut lines = text.lines();
    match (lines.next(), lines.next()) {
        (Some(line), None) if !line.is_empty() => Ok(line.to_owned()),
        _ => Err("it must hold one line, the password".to_owned()),
    }
}

/// Looks whether a file can hold authorities.
fn authorities(path: &Path) -> Result<(), String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    let holds = text.contains("-----BEGIN CERTIFICATE-----");
    if holds { Ok(()) } else { Err("no certificate in it".to_owned()) }
}

/// Reads a proxy's credentials.
///
/// # Errors
/// Why not, without anything of what is in the file.
pub(crate) fn credentials(path: &Path) -> Result<Credentials, String> {
    let text = fs::read_to_string(path).map_err(|error| error.to_string())?;
    Credentials::new(&text).ok_or_else(|| "it must hold one line, user:password".to_owned())
}

fn tls_files(gathered: &Gathered) -> TlsFiles {
    let client = path(gathered, CERTIFICATE).zip(path(gathered, KEY));
    TlsFiles {
        ca: path(gathered, CA),
        client: client.map(|(certificate, key)| ClientFiles { certificate, key }),
    }
}

/// The path of a key that has one, and is not wrong by itself.
fn path(gathered: &Gathered, key: &str) -> Option<PathBuf> {
    match gathered.values.get(key).map(|effective| &effective.value) {
        Some(Value::Path(path)) if !gathered.is_refused(key) => {
            (!path.as_os_str().is_empty()).then(|| path.clone())
        }
        _ => None,
    }
}

fn refuse(gathered: &mut Gathered, key: &str, path: &Path, why: &str, allowed: &str) {
    if let Some(key) = keys::find(key) {
        let seen = format!("{} ({why})", path.display());
        gathered.refuse(key, gathered.origin(key.name), seen, allowed.to_owned());
    }
}

fn below(file: &Path) -> String {
    format!("{} is a file", file.display())
}
