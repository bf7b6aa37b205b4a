//! Headers of deliveries to a receiver, which may be credentials.
//!
//! Other users of the machine can read what is typed, so a value can stand in a file: `name:@FILE`. clap shows what
//! a parser refuses, so anything is taken first and checked afterwards.

use std::path::Path;

use super::{
    input,
    values::{self, Unchecked},
};
use crate::failure::Failure;

/// Headers whose values are secrets for certain.
const SECRETS: [&str; 2] = ["authorization", "cookie"];

/// Names and values of the headers of this option.
pub(crate) fn checked(
    option: &str,
    headers: Vec<Unchecked>,
) -> Result<Vec<(String, String)>, Failure> {
    headers.into_iter().map(|header| read(option, &header.0)).collect()
}

fn read(option: &str, text: &str) -> Result<(String, String), Failure> {
    let (name, value) = values::header(text).map_err(|allowed| {
        Failure::usage(format_args!("the value of {option} is no header: {allowed}"))
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
