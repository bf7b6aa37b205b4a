//! The server where `--server` names none.

use std::env;

use reqwest::Url;

use super::values;
use crate::failure::Failure;

/// Names the server.
const VARIABLE: &str = "DULY_SERVER";
/// Where a server listens that was told nothing.
const DEFAULT: &str = "http://127.0.0.1:3859";

/// The server that the environment names, or the one of this machine.
pub(crate) fn from_env() -> Result<Url, Failure> {
    let named = env::var_os(VARIABLE);
    let named = named.as_deref().map_or_else(|| DEFAULT.into(), |text| text.to_string_lossy());
    values::server_url(&named).map_err(|why| {
        let named = duly_core::invalid::shorten(&named);
        Failure::usage(format_args!("the value {named} of the variable {VARIABLE}: {why}"))
    })
}
