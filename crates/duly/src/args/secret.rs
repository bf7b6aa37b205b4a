//! Signing secrets as they are typed.
//!
//! A value that a parser refuses is shown by clap, and a secret with one wrong character is a secret
//! still: so anything is taken first and checked afterwards, and the refusal does not show it.

use std::convert::Infallible;

use duly_core::namespace::SigningSecret;

use crate::failure::Failure;

/// A secret, not checked yet.
#[derive(Clone)]
pub(crate) struct Secret(String);

/// Takes any text.
pub(crate) fn parse(text: &str) -> Result<Secret, Infallible> {
    Ok(Secret(text.to_owned()))
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
