//! The server that a command calls: the one of `--server`, else of the environment.
//!
//! A refused address is printed without user name and password.

use std::env;

use duly_server::config::without_secrets;
use reqwest::Url;

use super::values::{self, Unchecked};
use crate::failure::Failure;

/// The variable with the server's address.
const VARIABLE: &str = "DULY_SERVER";
/// The address of a server with the default configuration.
pub(crate) const DEFAULT: &str = "http://127.0.0.1:3859";

impl Unchecked {
    /// Returns the checked address. A password in it is refused: other users of the machine can read a
    /// command line.
    pub(crate) fn url(&self) -> Result<Url, Failure> {
        let url = values::server_url(&self.0).map_err(|why| {
            let typed = shown(&self.0);
            Failure::usage(format_args!("invalid value {typed} for '--server <URL>': {why}"))
        })?;
        match url.password() {
            None => Ok(url),
            Some(_) => Err(Failure::usage(format_args!(
                "--server contains a password, which other users of this machine can read: name \
                 the server in the variable {VARIABLE}"
            ))),
        }
    }
}

/// Returns the typed text, quoted, without user name and password.
fn shown(text: &str) -> String {
    duly_core::invalid::shorten(&without_secrets(text))
}

/// Returns the server of the environment variable, or else the default one on this machine.
pub(crate) fn from_env() -> Result<Url, Failure> {
    let named = env::var_os(VARIABLE);
    let named = named.as_deref().map_or_else(|| DEFAULT.into(), |text| text.to_string_lossy());
    values::server_url(&named).map_err(|why| {
        let named = shown(&named);
        Failure::usage(format_args!("the value {named} of the variable {VARIABLE}: {why}"))
    })
}

/// Returns the server of a context.
pub(crate) fn of_context(server: &str) -> Result<Url, Failure> {
    values::server_url(server).map_err(|why| {
        Failure::usage(format_args!("the server {} of the context: {why}", shown(server)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_name_and_password_are_not_shown() {
        for text in ["http://me:hunter2@h:1", "me:hunter2@h", "ftp://hunter2@h/x@y", "//hunter2@"] {
            assert!(!shown(text).contains("hunter2"), "{}", shown(text));
        }
        assert_eq!(shown("localhost:1"), "\"localhost:1\"");
    }
}
