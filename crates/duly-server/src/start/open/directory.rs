//! Refuses a data directory that belongs to another program.
//!
//! The store creates its files in any directory without a manifest. A mistyped `--data` must not scatter
//! them among the files of another program. So a directory that holds anything but a store is refused
//! before it is touched.

use std::{fs, path::Path};

use duly_store_embedded::disk::LOCK_NAME;

/// Names that mark a directory as that of a store, whole or damaged. The store itself checks such a
/// directory.
const OF_A_STORE: [&str; 3] = ["MANIFEST", "MANIFEST.copy", "journal"];
/// Names that a directory without a store may hold: files of a first start that was cut off, and the
/// root of a new file system.
const HARMLESS: [&str; 3] = [LOCK_NAME, "MANIFEST.tmp", "lost+found"];

/// Returns the first name in `path` that belongs to another program.
///
/// An unreadable directory returns `None`: the store reports the error.
pub(super) fn find_foreign_name(path: &Path) -> Option<String> {
    let names = fs::read_dir(path).ok()?.flatten().map(|entry| entry.file_name());
    let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    if names.iter().any(|name| OF_A_STORE.contains(&name.as_str())) {
        return None;
    }
    names.retain(|name| !HARMLESS.contains(&name.as_str()));
    names.into_iter().min()
}

/// Returns the nearest existing directory above `path`.
pub(super) fn nearest_existing(path: &Path) -> &Path {
    let above = path.ancestors().skip(1).find(|above| above.exists());
    above.unwrap_or_else(|| Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_empty_directory_or_a_store_is_ours() {
        let check = |names: &[&str], expected: Option<&str>| {
            let directory = tempfile::tempdir().unwrap();
            for name in names {
                fs::write(directory.path().join(name), "").unwrap();
            }
            assert_eq!(find_foreign_name(directory.path()).as_deref(), expected, "{names:?}");
        };
        check(&[], None);
        check(&["LOCK", "MANIFEST.tmp", "lost+found"], None);
        check(&["MANIFEST", "notes.txt"], None);
        check(&["MANIFEST.copy", "notes.txt"], None);
        check(&["journal", "notes.txt"], None);
        check(&["LOCK", "b.txt", "a.txt"], Some("a.txt"));
        check(&[".bashrc"], Some(".bashrc"));
        assert_eq!(find_foreign_name(Path::new("/nowhere/at/all")), None);
    }

    #[test]
    fn the_nearest_is_one_that_is_there() {
        assert_eq!(nearest_existing(Path::new("/nowhere/at/all")), Path::new("/"));
        assert_eq!(nearest_existing(Path::new("nowhere/at/all")), Path::new("."));
    }
}
