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
pub(crate) const FILE: &str = "DULY_API_KEY_FILE";
/// The variable with the key itself.
const KEY: &str = "DULY_API_KEY";

/// Returns the header with the key of a file; without one that of the variable, if `reads_variable`.
pub(crate) fn authorization(
    file: Option<&Path>,
    reads_variable: bool,
) -> Result<Option<HeaderValue>, Failure> {
    let (text, place) = if let Some(path) = file {
        (input::text(path, "key")?, format!("the file of the key {}", path.display()))
    } else if let Some(key) = env::var_os(KEY).filter(|key| reads_variable && !key.is_empty()) {
        (key.to_string_lossy().into_owned(), KEY.to_owned())
    } else {
        return Ok(None);
    };
    header(&text).map(Some).ok_or_else(|| {
        Failure::usage(format_args!(
            "{place} must hold one line, a key as `duly key create` prints it, or a signed token (JWT); it \
             holds something else, or a part of the key is missing or mistyped"
        ))
    })
}

fn header(text: &str) -> Option<HeaderValue> {
    let text = text.trim_start_matches('\u{feff}').trim();
    if text.parse::<PresentedKey>().is_err() && !is_token(text) {
        return None;
    }
    let mut header = HeaderValue::from_str(&format!("Bearer {text}")).ok()?;
    header.set_sensitive(true);
    Some(header)
}

/// Returns `true` for three parts of base64url, as a signed token has.
fn is_token(text: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    text.split('.').count() == 3 && text.split('.').all(is_part)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use duly_core::access::KeyId;
    use duly_tls::files;
    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;
    use crate::http::Http;

    #[test]
    fn pipes_devices_and_huge_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let [pipe, huge] = ["pipe", "huge"].map(|name| folder.path().join(name));
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        File::create(&huge).unwrap().set_len(files::FILE_BYTES_MAX + 1).unwrap();
        for (path, reason) in [
            (&*pipe, "not a regular file"),
            (&*huge, "more than 4 MiB"),
            (Path::new("/dev/zero"), "not a regular file"),
        ] {
            let server = "https://localhost".parse::<reqwest::Url>().unwrap();
            let of_key = authorization(Some(path), false).map(drop);
            let of_ca = Http::new(server.clone(), [Some(path), None], None).map(drop);
            let of_certificate = Http::new(server, [None, Some(path)], None).map(drop);
            for refused in [of_key, of_ca, of_certificate] {
                let said = format!("{:?}", refused.unwrap_err());
                let name = path.to_str().unwrap();
                assert!(said.contains(name) && said.contains(reason), "{said}");
            }
        }
    }

    #[test]
    fn a_whole_key_is_sent_and_never_shown() {
        let key = PresentedKey::new(KeyId::generate([1; 10]), [2; 32]).reveal();
        let sent = header(&format!(" {key}\n")).expect("a key");
        assert_eq!(sent.to_str().ok(), Some(&*format!("Bearer {key}")));
        assert!(!format!("{sent:?}").contains(&key));
        assert!(header("eyJhbGciOiJ.eyJpc3M.c2ln-_").is_some());
        for other in [
            "",
            "a.b",
            "a.b.",
            "a.b.c.d",
            "a b.c.d",
            &key[..key.len() - 1],
            &format!("{key}\n{key}"),
        ] {
            assert!(header(other).is_none(), "{other}");
        }
    }
}
