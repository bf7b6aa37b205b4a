//! Signing secrets as they are typed.
//!
//! A value that a parser refuses is shown by clap, and a secret with one wrong character is a secret
//! still: so anything is taken first and checked afterwards, and the refusal does not show it.

use std::{convert::Infallible, env};

use duly_core::namespace::SigningSecret;

use crate::failure::Failure;

/// A secret, not checked yet.
#[derive(Clone)]
pub(crate) struct Secret(String);

/// Takes any text.
pub(crate) fn parse(text: &str) -> Result<Secret, Infallible> {
    Ok(Secret(text.to_owned()))
}

/// The secrets of the first of these variables that is there and says something, checked.
pub(crate) fn from_env(variables: &[&str]) -> Result<Vec<SigningSecret>, Failure> {
    let values = variables.iter().filter_map(|name| Some((*name, env::var_os(name)?)));
    let mut said = values.filter(|(_, value)| !value.is_empty());
    let Some((name, value)) = said.next() else { return Ok(Vec::new()) };
    let secrets: Vec<_> =
        value.to_string_lossy().split(',').map(|text| Secret(text.to_owned())).collect();
    checked(name, &secrets)
}

/// The secrets of this option, checked.
pub(crate) fn checked(option: &str, secrets: &[Secret]) -> Result<Vec<SigningSecret>, Failure> {
    let checked: Result<Vec<_>, _> =
        secrets.iter().map(|secret| SigningSecret::new(&secret.0)).collect();
    checked.map_err(|invalid| {
        let allowed = invalid.allowed;
        Failure::usage(format_args!("the value of {option} is no secret: it must be {allowed}"))
    })
}
