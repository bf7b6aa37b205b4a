//! Contexts: servers that commands call by a name, with the key, the authorities and the namespace that belong
//! to each.
//!
//! 1. A context is used as a whole or not at all. `--server`, and the variable `DULY_SERVER` without
//!    `--context`, use none: the key of one server must not be sent to another.
//! 2. `--context` names one, else the variable `DULY_CONTEXT`, else `duly context use` has chosen one. No other
//!    command chooses one.
//! 3. The file has paths of keys, not keys.

use std::{
    collections::BTreeMap,
    env,
    fs::{self, DirBuilder, File},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use duly_core::NamespaceName;
use duly_tls::files;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;

/// The variable with the path of the file.
const FILE: &str = "DULY_CONTEXTS";
/// The variable with the name of a context.
const NAMED: &str = "DULY_CONTEXT";
/// The text that stands for the namespace of the context.
pub(crate) const DEFAULT_NAMESPACE: &str = ".";

/// The contexts of a user, and the one that is used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Contexts {
    /// The name of the one that is used by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) current: Option<String>,
    /// The contexts by name.
    pub(crate) contexts: BTreeMap<String, Context>,
}

/// A server with its credentials and default namespace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Context {
    /// The address of the server.
    pub(crate) server: String,
    /// A file with the key to send.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key_file: Option<PathBuf>,
    /// A file with the certificate of the caller and its key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cert_file: Option<PathBuf>,
    /// A file with further authorities of the server's certificate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ca_file: Option<PathBuf>,
    /// The namespace that `.` stands for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) namespace: Option<String>,
}

impl Contexts {
    /// Reads the file; there are none if it does not exist.
    pub(crate) fn read() -> Result<Self, Failure> {
        let Some(path) = path() else { return Ok(Self::default()) };
        let unusable = |reason: &dyn std::fmt::Display| {
            let path = path.display();
            Failure::usage(format_args!("the file of contexts {path}: {reason}"))
        };
        let read = files::read_once(&path, files::FILE_BYTES_MAX);
        let read = read.and_then(|bytes| files::check_trusted(&path).map(|()| bytes));
        match read.and_then(files::text) {
            // The text of the error would show the line, which may hold a key by mistake.
            Ok(text) => toml::from_str(&text).map_err(|error| {
                let line = error.span().map_or(1, |span| text[..span.start].lines().count().max(1));
                unusable(&format_args!("line {line}: {}", error.message()))
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(unusable(&error)),
        }
    }

    /// Writes the file, whole or not at all.
    pub(crate) fn write(&self) -> Result<(), Failure> {
        let path = path().ok_or_else(|| {
            Failure::new(format_args!("there is no home directory: name a file in {FILE}"))
        })?;
        let text = toml::to_string(self).expect("contexts are TOML");
        let temporary = path.with_extension("tmp");
        let directory = path.parent().unwrap_or(Path::new("."));
        // The file shows where keys are. Its rights do not depend on the umask.
        let create = || {
            DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
            files::check_trusted_folder(directory)?;
            fs::remove_file(&temporary).or_else(|error| match error.kind() {
                io::ErrorKind::NotFound => Ok(()),
                _ => Err(error),
            })?;
            File::options().write(true).create_new(true).mode(0o600).open(&temporary)
        };
        let written = create()
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .and_then(|()| fs::rename(&temporary, &path));
        written
            .map_err(|error| Failure::new(format_args!("cannot write {}: {error}", path.display())))
    }

    /// Returns the context of a name.
    pub(crate) fn get(&self, name: &str) -> Result<&Context, Failure> {
        self.contexts.get(name).ok_or_else(|| {
            let known: Vec<_> = self.contexts.keys().map(String::as_str).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            Failure::usage(format_args!(
                "there is no context {name:?}; there are: {known}. `duly context put {name} --server URL` \
                 creates it"
            ))
        })
    }
}

/// Returns the context that a command uses, with its name, if any. `named` is that of `--context`.
pub(crate) fn select(
    named: Option<&str>,
    has_server: bool,
) -> Result<Option<(String, Context)>, Failure> {
    let of_variable = |name| env::var(name).ok().filter(|value| !value.is_empty());
    let named = match named {
        Some(name) => Some(name.to_owned()),
        None if has_server || of_variable("DULY_SERVER").is_some() => return Ok(None),
        None => of_variable(NAMED),
    };
    let contexts = Contexts::read()?;
    let Some(name) = named.or_else(|| contexts.current.clone()) else { return Ok(None) };
    let context = contexts.get(&name)?.clone();
    Ok(Some((name, context)))
}

/// Returns the namespace of the context that the command line of this process names.
pub(crate) fn namespace() -> Result<NamespaceName, String> {
    let (named, server) = named_on_the_command_line();
    let context =
        select(named.as_deref(), server.is_some()).map_err(|failure| failure.to_string())?;
    let name = context.and_then(|(_, context)| context.namespace).ok_or_else(|| {
        "it stands for the namespace of the context, and no context with one is used (with --server or \
         DULY_SERVER none is): name a namespace, or set one with `duly context put NAME --server URL --namespace \
         NAMESPACE`"
            .to_owned()
    })?;
    NamespaceName::new(&name).map_err(|invalid| format!("it must be {}", invalid.allowed))
}

/// Returns the values of `--context` and `--server` of the command line of this process, before it is parsed.
pub(crate) fn named_on_the_command_line() -> (Option<String>, Option<String>) {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let value = |name: &str| {
        let place =
            arguments.iter().position(|it| it == name || it.starts_with(&format!("{name}=")))?;
        match arguments[place].split_once('=') {
            Some((_, value)) => Some(value.to_owned()),
            None => arguments.get(place + 1).cloned(),
        }
    };
    (value("--context"), value("--server"))
}

/// Returns the path of the file.
fn path() -> Option<PathBuf> {
    let of_variable = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    of_variable(FILE).or_else(|| {
        let directory = of_variable("XDG_CONFIG_HOME");
        let directory = directory.or_else(|| Some(of_variable("HOME")?.join(".config")))?;
        Some(directory.join("duly/contexts.toml"))
    })
}
