//! Signing secrets: read from files, from stdin and from the environment.
//!
//! They are not read from the command line, which other users of the machine can read. A secret with one
//! wrong character is still a secret, so a refusal does not print it.

use std::{env, path::Path};

use duly_api::SigningSecrets;
use duly_core::namespace::{SIGNING_SECRETS_MAX, SigningSecret};

use super::input;
use crate::{failure::Failure, output::text};

/// Returns the secrets of the first of these variables that is set and not empty, checked.
pub(crate) fn from_env(variables: &[&str]) -> Result<Vec<SigningSecret>, Failure> {
    let values = variables.iter().filter_map(|name| Some((*name, env::var_os(name)?)));
    let mut said = values.filter(|(_, value)| !value.is_empty());
    let Some((name, value)) = said.next() else { return Ok(Vec::new()) };
    let secrets = value.to_string_lossy();
    let secrets: Result<Vec<_>, _> = secrets.split(',').map(SigningSecret::new).collect();
    secrets.map_err(|invalid| {
        let allowed = invalid.allowed;
        Failure::usage(format_args!("the value of {name} is not a secret: it must be {allowed}"))
    })
}

/// Returns the secrets of a file, one per line; `-` is stdin.
pub(crate) fn from_file(path: &Path) -> Result<Vec<SigningSecret>, Failure> {
    let text = input::text(path, "secrets")?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let secrets: Result<Vec<_>, _> = lines.map(SigningSecret::new).collect();
    let name = input::name(path);
    let secrets = secrets.map_err(|invalid| {
        Failure::new(format_args!("each line of {name} must be {}", invalid.allowed))
    })?;
    if secrets.is_empty() || secrets.len() > SIGNING_SECRETS_MAX {
        let found = text::count(u64::try_from(secrets.len()).unwrap_or(u64::MAX), "secret");
        return Err(Failure::new(format_args!(
            "{name} contains {found}: it must contain one, or two during a rotation"
        )));
    }
    Ok(secrets)
}

/// Returns the secrets in the form of a request.
pub(crate) fn revealed(secrets: &[SigningSecret]) -> SigningSecrets {
    SigningSecrets { secrets: secrets.iter().map(|secret| secret.reveal().to_owned()).collect() }
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
            from_file(&path)
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
