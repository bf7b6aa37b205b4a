//! The key that a command sends: of a file, or of the environment.
//!
//! It is not read from the command line, which other users of the machine can read, and a refusal does not
//! print it.

use std::{env, path::Path};

use duly_core::access::PresentedKey;
use reqwest::header::HeaderValue;

use super::input;
use crate::failure::Failure;

/// The variable with the name of a file.
const FILE: &str = "DULY_API_KEY_FILE";
/// The variable with the key itself.
const KEY: &str = "DULY_API_KEY";

/// Returns the header with the key of `--key-file`, or else of the variables.
pub(crate) fn authorization(file: Option<&Path>) -> Result<Option<HeaderValue>, Failure> {
    let of_variable = |name| env::var_os(name).filter(|value| !value.is_empty());
    let (text, place) = if let Some(path) = file {
        (input::text(path, "key")?, format!("--key-file {}", path.display()))
    } else if let Some(path) = of_variable(FILE) {
        let path = Path::new(&path);
        (input::text(path, "key")?, format!("{FILE} {}", path.display()))
    } else if let Some(key) = of_variable(KEY) {
        (key.to_string_lossy().into_owned(), KEY.to_owned())
    } else {
        return Ok(None);
    };
    header(&text).map(Some).ok_or_else(|| {
        Failure::usage(format_args!(
            "{place} must hold one line, a key as `duly key create` prints it; it holds something else, \
             or a part of the key is missing or mistyped"
        ))
    })
}

fn header(text: &str) -> Option<HeaderValue> {
    let key: PresentedKey = text.trim().parse().ok()?;
    let mut header = HeaderValue::from_str(&format!("Bearer {}", key.reveal())).ok()?;
    header.set_sensitive(true);
    Some(header)
}

#[cfg(test)]
mod tests {
    use duly_core::access::KeyId;

    use super::*;

    #[test]
    fn a_whole_key_is_sent_and_never_shown() {
        let key = PresentedKey::new(KeyId::generate([1; 10]), [2; 32]).reveal();
        let sent = header(&format!(" {key}\n")).expect("a key");
        assert_eq!(sent.to_str().ok(), Some(&*format!("Bearer {key}")));
        assert!(!format!("{sent:?}").contains(&key));
        for other in ["", &key[..key.len() - 1], &format!("{key}\n{key}")] {
            assert!(header(other).is_none(), "{other}");
        }
    }
}
