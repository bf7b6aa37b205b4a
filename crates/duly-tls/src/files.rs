//! Files that a configuration names: certificates, keys, secrets, logs.
//!
//! A file that is read is read at the start and again while the server runs. A pipe would hold up the reader for ever, and a huge
//! file would take the memory. Both are refused. A file that is appended to must be a regular one too, or a stream of the
//! process.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
};

use rustix::fs::{Mode, OFlags, StatVfsMountFlags, statvfs};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};

/// Most bytes of a file: a bundle of all public authorities has about 250 KB.
pub const FILE_BYTES_MAX: u64 = 4 << 20;

/// Reads a file as a whole.
///
/// # Errors
/// Errors of the system, [`io::ErrorKind::InvalidInput`] for anything but a regular file, and
/// [`io::ErrorKind::FileTooLarge`] for more than [`FILE_BYTES_MAX`] bytes. The error does not name the file.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    read_bounded(open_regular(path)?, FILE_BYTES_MAX)
}

/// Reads an input of a process that is read once: a file as by [`read`], or a stream that the process has already, such
/// as `/dev/stdin` or the `/dev/fd/63` of a shell, to its end.
///
/// # Errors
/// As [`read`], with this bound.
pub fn read_once(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let ends_by_itself = ["/dev/stdin", "/dev/null"].iter().any(|it| path == Path::new(it));
    let file =
        if ends_by_itself || is_stream(path) { File::open(path) } else { open_regular(path) };
    read_bounded(file?, bytes_max)
}

/// Reads a source to its end.
///
/// # Errors
/// Errors of the system, and [`io::ErrorKind::FileTooLarge`] for more bytes than the bound.
pub fn read_bounded(source: impl Read, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        let reason = format!("more than {} MiB", bytes_max >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, reason));
    }
    Ok(bytes)
}

fn open_regular(path: &Path) -> io::Result<File> {
    // Opening a pipe without NONBLOCK waits for its writer.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if file.metadata()?.is_file() {
        return Ok(file);
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"))
}

/// Checks that not every user of the machine can write to a file that others rely on, or replace it.
///
/// # Errors
/// Errors of the system, and [`io::ErrorKind::PermissionDenied`] for a file with the write bit for others and for
/// those of [`check_trusted_folder`]. The error does not name the file.
pub fn check_trusted(path: &Path) -> io::Result<()> {
    let metadata = std::fs::metadata(path)?;
    let mode = metadata.permissions().mode() & 0o7777;
    // A write to a device, such as `/dev/null`, does not change what it gives.
    if metadata.is_file() && mode & 0o002 != 0 {
        let reason =
            format!("every user of this machine can write to it (mode {mode:o}): chmod o-w");
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
    }
    check_trusted_folder(path.parent().unwrap_or(Path::new(".")))
}

/// Checks that not every user of the machine can replace the files of a folder.
///
/// # Errors
/// Errors of the system, and [`io::ErrorKind::PermissionDenied`] for a folder with the write bit for others and
/// without the sticky bit.
pub fn check_trusted_folder(folder: &Path) -> io::Result<()> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let mode = std::fs::metadata(folder)?.permissions().mode() & 0o7777;
    if mode & 0o1002 != 0o002 || is_read_only(folder) {
        return Ok(());
    }
    let reason = format!(
        "every user of this machine can replace the files in {} (mode {mode:o}): chmod o-w that folder",
        folder.display()
    );
    Err(io::Error::new(io::ErrorKind::PermissionDenied, reason))
}

/// Returns `true` for a folder of a file system that is mounted to be read only, as a ConfigMap of Kubernetes is.
fn is_read_only(folder: &Path) -> bool {
    statvfs(folder).is_ok_and(|it| it.f_flag.contains(StatVfsMountFlags::RDONLY))
}

/// Returns `true` for the path of a stream that the process has already, such as `/dev/stdout`.
pub fn is_stream(path: &Path) -> bool {
    ["/dev/stdout", "/dev/stderr"].iter().any(|stream| path == Path::new(stream))
        || ["/dev/fd", "/proc/self/fd"].iter().any(|folder| path.starts_with(folder))
}

/// Checks that the file at this path, if there is one, can be appended to.
///
/// # Errors
/// Errors of the system, and [`io::ErrorKind::InvalidInput`] for a pipe, a folder or a device, unless it is
/// a [stream](is_stream) of the process. The error does not name the file.
pub fn check_appendable(path: &Path) -> io::Result<()> {
    if is_stream(path) || std::fs::metadata(path)?.is_file() { Ok(()) } else { Err(irregular()) }
}

/// Opens a file to append to it, and creates it if there is none.
///
/// # Errors
/// As [`check_appendable`].
pub fn open_to_append(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    match check_appendable(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    options.append(true).create(true);
    if is_stream(path) {
        return options.open(path);
    }
    // A pipe may have taken the place since.
    let file = options.custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(irregular()) }
}

fn irregular() -> io::Error {
    let reason = "not a regular file: name a file, or /dev/stdout";
    io::Error::new(io::ErrorKind::InvalidInput, reason)
}

/// Reads a file of text.
///
/// # Errors
/// As [`read`], and [`io::ErrorKind::InvalidData`] if it is not UTF-8.
pub fn read_to_string(path: &Path) -> io::Result<String> {
    text(read(path)?)
}

/// Returns bytes as text.
///
/// # Errors
/// [`io::ErrorKind::InvalidData`] if they are not UTF-8.
pub fn text(bytes: Vec<u8>) -> io::Result<String> {
    let refused = |_| io::Error::new(io::ErrorKind::InvalidData, "not text in UTF-8");
    String::from_utf8(bytes).map_err(refused)
}

/// Reads the certificates of a file in PEM, at least one.
///
/// # Errors
/// The reason, without any content of the file.
pub fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let unreadable = |reason: String| format!("no certificate can be read from it: {reason}");
    let pem = read(path).map_err(|error| unreadable(error.to_string()))?;
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let read = read.map_err(|error| unreadable(error.to_string()))?;
    if read.is_empty() {
        return Err("there is no certificate in it; it must be PEM (-----BEGIN CERTIFICATE-----)"
            .to_owned());
    }
    Ok(read)
}

/// Reads the private key of a file in PEM.
///
/// # Errors
/// The reason, without any content of the file.
pub fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    let unreadable = |reason: String| format!("no private key can be read from it: {reason}");
    let pem = read(path).map_err(|error| unreadable(error.to_string()))?;
    PrivateKeyDer::from_pem_slice(&pem).map_err(|error| unreadable(error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_that_everyone_can_write_to_is_not_trusted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        fs::write(&path, "text").unwrap();
        for (mode, is_trusted) in [(0o600, true), (0o664, true), (0o602, false), (0o666, false)] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let checked = check_trusted(&path);
            assert_eq!(checked.is_ok(), is_trusted, "{mode:o}");
            if let Err(error) = checked {
                assert!(error.to_string().contains(&format!("mode {mode:o}")), "{error}");
            }
        }
    }

    #[test]
    fn pipes_folders_and_huge_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let mode = Mode::RUSR | Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, path("pipe"), rustix::fs::FileType::Fifo, mode, 0)
            .unwrap();
        File::create(path("huge")).unwrap().set_len(FILE_BYTES_MAX + 1).unwrap();
        File::create(path("large")).unwrap().set_len(FILE_BYTES_MAX).unwrap();
        fs::write(path("text"), "text").unwrap();
        std::os::unix::fs::symlink(path("text"), path("link")).unwrap();

        let refused = |path: &Path| read(path).unwrap_err().to_string();
        assert_eq!(refused(&path("pipe")), "not a regular file");
        assert_eq!(refused(folder.path()), "not a regular file");
        assert_eq!(refused(Path::new("/dev/zero")), "not a regular file");
        assert_eq!(refused(&path("huge")), "more than 4 MiB");
        assert_eq!(read(&path("large")).unwrap().len() as u64, FILE_BYTES_MAX);
        assert_eq!(read_to_string(&path("link")).unwrap(), "text");
        let error = certificates(&path("pipe")).unwrap_err();
        assert_eq!(error, "no certificate can be read from it: not a regular file");
    }
}
