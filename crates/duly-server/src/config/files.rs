//! Checks the files and directories that a configuration names: certificates that cannot be read, a
//! file where a directory is meant. All errors are reported at once, each with its origin. Nothing is
//! created or changed.
//!
//! Apart from the rest, since `config show` shows a configuration also where the files do not exist.

use std::{io, path::Path};

use duly_core::access::PresentedKey;
use duly_sink::http::options::{ClientFiles, Credentials, TlsFiles};
use duly_tls::files;
use jsonwebtoken::Algorithm;

use super::{AuthMode, Config, JwtAlgorithm, Layers, Tls, keys::key};
use crate::auth::tokens;
use crate::serve::{NamedFile, TlsOptions};

/// Notes files that cannot be used. Nothing of their content is shown.
pub(super) fn check(config: &Config, layers: &mut Layers) {
    let Config { store, webhook, .. } = config;
    let mut refuse = |key: &'static str, path: &Path, why: &str, allowed: &str| {
        if !layers.is_refused(key) {
            let seen = format!("{} ({why})", path.display());
            layers.refuse(key, config.origin(key), seen, allowed.to_owned());
        }
    };
    if let Some(data) = store.data_dir() {
        let backups = store.backup_dir.as_deref().map(|path| (key!(store.backup_dir), path));
        for (key, path) in [Some((key!(store.data), data)), backups].into_iter().flatten() {
            if let Some(file) = path.ancestors().find(|above| above.exists() && !above.is_dir()) {
                let below = format!("{} is a file", file.display());
                let why = if file == path { "a file" } else { &below };
                refuse(key, path, why, "a directory, or a path where one can be made");
            }
        }
    }
    for error in duly_sink::http::check_files(&tls_files(config)) {
        if let duly_sink::Error::File { key, path, reason, .. } = error {
            refuse(key, &path, &reason, "a file in PEM that can be used");
        }
    }
    if let Some(Err(error)) = server_tls(config).map(|options| options.read()) {
        refuse(error.key, &error.path, &error.reason, "a file in PEM that can be used");
    }
    let mut read =
        |key, path: Option<&Path>, check_file: &dyn Fn(&Path) -> Result<(), String>, allowed| {
            if let Some(path) = path
                && let Err(reason) = check_file(path)
            {
                refuse(key, path, &reason, allowed);
            }
        };
    read(
        key!(webhook.proxy_credentials_file),
        webhook.proxy_credentials_file.as_deref(),
        &|path| credentials(path).map(drop),
        "a file that holds one line, user:password",
    );
    read(
        key!(auth.root_key_file),
        config.auth.root_key_file.as_deref(),
        &|path| root_key(path).map(drop),
        "a file that holds one line, a key",
    );
    read(
        key!(jwt.jwks_file),
        config.jwt.jwks_file.as_deref(),
        &|path| tokens::check_file(path, &jwt_algorithms(config)),
        "a file with a set of keys (JWKS)",
    );
    read(
        key!(store.password_file),
        store.password_file.as_deref(),
        &|path| password(path).map(drop),
        "a file that holds one line, the password",
    );
    read(
        key!(store.ca_file),
        store.ca_file.as_deref(),
        &authorities,
        "a file in PEM that can be used",
    );
    read(
        key!(audit.file),
        config.audit.file.as_deref(),
        &place_of_file,
        "a file in a directory that exists",
    );
}

/// Returns the algorithms of tokens that are allowed.
pub(crate) fn jwt_algorithms(config: &Config) -> Vec<Algorithm> {
    let algorithm = |algorithm: &JwtAlgorithm| match algorithm {
        JwtAlgorithm::Rs256 => Algorithm::RS256,
        JwtAlgorithm::Es256 => Algorithm::ES256,
        JwtAlgorithm::EdDsa => Algorithm::EdDSA,
    };
    let all = [JwtAlgorithm::Rs256, JwtAlgorithm::Es256, JwtAlgorithm::EdDsa];
    let named = &config.jwt.algorithms;
    let named = if named.is_empty() { &all[..] } else { named };
    named.iter().map(algorithm).collect()
}

/// Returns the settings of the server's own TLS.
pub(crate) fn server_tls(config: &Config) -> Option<TlsOptions> {
    let Tls { certificate_file, key_file, client_ca_file, min_version, reload } = &config.tls;
    let file = |key, path: &Option<super::AbsolutePath>| {
        path.as_deref().map(|path| NamedFile { key, path: path.to_owned() })
    };
    Some(TlsOptions {
        certificate: file(key!(tls.certificate_file), certificate_file)?,
        key: file(key!(tls.key_file), key_file)?,
        client_ca: file(key!(tls.client_ca_file), client_ca_file),
        requires_certificate: config.auth.mode.iter().all(|mode| *mode == AuthMode::Mtls),
        min_version: *min_version,
        reload: reload.to_std(),
    })
}

/// Returns the files of the webhook client.
pub(crate) fn tls_files(config: &Config) -> TlsFiles {
    let webhook = &config.webhook;
    let path = |file: &Option<super::AbsolutePath>| file.as_deref().map(Path::to_owned);
    let client = path(&webhook.client_certificate_file).zip(path(&webhook.client_key_file));
    TlsFiles {
        ca: path(&webhook.ca_file),
        client: client.map(|(certificate, key)| {
            let namespaces = webhook.client_certificate_namespaces.iter();
            ClientFiles {
                certificate,
                key,
                namespaces: namespaces.map(|it| it.0.clone()).collect(),
            }
        }),
    }
}

/// Reads the password of a store.
///
/// # Errors
/// The reason, without any content of the file.
pub(crate) fn password(path: &Path) -> Result<String, String> {
    one_line(path)?.ok_or_else(|| "it must hold one line, the password".to_owned())
}

/// Reads the root key.
///
/// # Errors
/// The reason, without any content of the file.
pub(crate) fn root_key(path: &Path) -> Result<PresentedKey, String> {
    files::check_trusted(path).map_err(|error| error.to_string())?;
    let key = one_line(path)?.and_then(|line| line.trim().parse().ok());
    key.ok_or_else(|| "it must hold one line, a key as `duly key generate` prints it".to_owned())
}

/// Reads a file that holds one line; `None` if it holds none or several.
fn one_line(path: &Path) -> Result<Option<String>, String> {
    let text = files::read_to_string(path).map_err(|error| error.to_string())?;
    let mut lines = text.lines();
    let line = lines.next().filter(|line| !line.is_empty() && lines.next().is_none());
    Ok(line.map(str::to_owned))
}

/// Checks that a file is at a path, or can be made there.
fn place_of_file(path: &Path) -> Result<(), String> {
    let directory = path.parent().is_some_and(Path::is_dir);
    match files::check_appendable(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.to_string()),
        Ok(()) | Err(_) if !directory => Err("its directory does not exist".to_owned()),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Checks that a file can hold authorities.
fn authorities(path: &Path) -> Result<(), String> {
    let text = files::read_to_string(path).map_err(|error| error.to_string())?;
    let holds = text.contains("-----BEGIN CERTIFICATE-----");
    if holds { Ok(()) } else { Err("no certificate in it".to_owned()) }
}

/// Reads a proxy's credentials.
///
/// # Errors
/// The reason, without any content of the file.
pub(crate) fn credentials(path: &Path) -> Result<Credentials, String> {
    let text = files::read_to_string(path).map_err(|error| error.to_string())?;
    Credentials::new(&text).ok_or_else(|| "it must hold one line, user:password".to_owned())
}
