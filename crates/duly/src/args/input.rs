//! Input files of commands: a path, or `-` for stdin.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::Path,
};

use crate::failure::Failure;

/// Opens a file, or stdin. `what` names the expected content in errors.
pub(crate) fn open(path: &Path, what: &str) -> Result<Box<dyn Read + Send>, Failure> {
    Ok(match open_file(path, what)? {
        Some(file) => Box::new(file),
        None => Box::new(io::stdin()),
    })
}

/// Opens a file; `None` for stdin.
pub(crate) fn open_file(path: &Path, what: &str) -> Result<Option<File>, Failure> {
    if path == Path::new("-") {
        return Ok(None);
    }
    let opened = fs::metadata(path).and_then(|metadata| {
        if metadata.is_dir() {
            return Err(io::Error::new(io::ErrorKind::IsADirectory, "it is a directory"));
        }
        File::open(path)
    });
    opened.map(Some).map_err(|error| unreadable(path, what, &error))
}

/// Reads the whole text of a file, or of stdin.
pub(crate) fn text(path: &Path, what: &str) -> Result<String, Failure> {
    let mut text = String::new();
    open(path, what)?.read_to_string(&mut text).map_err(|error| unreadable(path, what, &error))?;
    Ok(text)
}

/// Returns the display name of a file.
pub(crate) fn name(path: &Path) -> String {
    if path == Path::new("-") { "stdin".to_owned() } else { path.display().to_string() }
}

/// Returns the failure for a file that cannot be read.
pub(crate) fn unreadable(path: &Path, what: &str, error: &io::Error) -> Failure {
    let name = name(path);
    Failure::new(format_args!(
        "cannot read the {what} from {name}: {error}; name a file, or `-` for stdin"
    ))
}
