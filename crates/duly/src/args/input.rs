//! Input files of commands: a path, or `-` for stdin.

use std::{
    fs::{self, File},
    io::{self, Read},
    path::Path,
};

use duly_tls::files;

use crate::failure::Failure;

/// The byte order mark of UTF-8, which some programs write in front of a text.
const MARK: &[u8] = b"\xef\xbb\xbf";
/// The beginnings of a text in UTF-16, as PowerShell writes it.
const UTF_16: [&[u8]; 2] = [b"\xff\xfe", b"\xfe\xff"];

/// Opens a file, or stdin. `what` names the expected content in errors.
pub(crate) fn open(path: &Path, what: &str) -> Result<Box<dyn Read + Send>, Failure> {
    Ok(match open_file(path, what)? {
        Some(file) => Box::new(file),
        None => Box::new(io::stdin()),
    })
}

/// Returns a text without its byte order mark.
pub(crate) fn without_mark(text: &[u8]) -> &[u8] {
    text.strip_prefix(MARK).unwrap_or(text)
}

/// Returns the bytes of a text behind its byte order mark.
///
/// # Errors
/// When the text is in UTF-16.
pub(crate) fn text_from<R: Read>(mut source: R) -> io::Result<impl Read> {
    let mut first = Vec::new();
    source.by_ref().take(MARK.len() as u64).read_to_end(&mut first)?;
    if UTF_16.iter().any(|mark| first.starts_with(mark)) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "it is text in UTF-16 (it begins with its byte order mark): save it as UTF-8",
        ));
    }
    let rest = without_mark(&first).to_vec();
    Ok(io::Cursor::new(rest).chain(source))
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
    let bytes = bytes(path, files::FILE_BYTES_MAX);
    let opened = bytes.and_then(|bytes| text_from(io::Cursor::new(bytes)));
    let read = opened.and_then(|mut source| source.read_to_string(&mut text));
    read.map_err(|error| unreadable(path, what, &error))?;
    Ok(text)
}

/// Reads a file, or stdin. Another pipe or a device, which can be without an end, is refused.
pub(crate) fn bytes(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    if path == Path::new("-") {
        return files::read_bounded(io::stdin(), bytes_max);
    }
    files::read_once(path, bytes_max)
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
