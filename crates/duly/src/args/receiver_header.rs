//! Headers of deliveries to a receiver, which may contain credentials.
//!
//! Other users of the machine can read a command line, so a value can be read from a file: `name:@FILE`.
//! clap prints values that a parser refuses, so any text is accepted first and checked afterwards.

use std::path::Path;

use super::{
    input,
    values::{self, Unchecked},
};
use crate::failure::Failure;

/// Headers whose values are always secret.
const SECRETS: [&str; 2] = ["authorization", "cookie"];

/// Returns the names and values of the headers of this option.
pub(crate) fn checked(
    option: &str,
    headers: Vec<Unchecked>,
) -> Result<Vec<(String, String)>, Failure> {
    headers.into_iter().map(|header| read(option, &header.0)).collect()
}

fn read(option: &str, text: &str) -> Result<(String, String), Failure> {
    let (name, value) = values::header(text).map_err(|allowed| {
        Failure::usage(format_args!("the value of {option} is not a header: {allowed}"))
    })?;
    if let Some(file) = value.strip_prefix('@') {
        let value = input::text(Path::new(file), "value of the header")?;
        return Ok((name, value.trim_end_matches(['\r', '\n']).to_owned()));
    }
    if SECRETS.iter().any(|secret| name.eq_ignore_ascii_case(secret)) {
        return Err(Failure::usage(format_args!(
            "{option} {name}: its value is a secret, which other users of this machine can read here: put it \
             into a file, and name that: \"{name}:@FILE\""
        )));
    }
    Ok((name, value))
}
