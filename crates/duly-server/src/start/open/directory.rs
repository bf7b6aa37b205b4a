//! What a data directory must not be: somebody else's.
//!
//! The store makes itself at home in any directory without a manifest. A mistyped `--data` must
//! not scatter its files among those of something else, so a directory that holds anything but a
//! store is refused before it is touched.

use std::{fs, path::Path};

use duly_store_embedded::disk::LOCK_NAME;

/// What says that a directory is a store's, whole or damaged: the store judges it.
const OF_A_STORE: [&str; 3] = ["MANIFEST", "MANIFEST.copy", "journal"];
/// What a directory without a store may hold: what a first start leaves behind that was cut off,
/// and what a fresh file system has at its root.
const HARMLESS: [&str; 3] = [LOCK_NAME, "MANIFEST.tmp", "lost+found"];

/// The first name in `path` that makes it somebody else's directory. What cannot be read is left
/// to the store, which says why.
pub(super) fn foreign(path: &Path) -> Option<String> {
    let names = fs::read_dir(path).ok()?.flatten().map(|entry| entry.file_name());
    let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
    if names.iter().any(|name| OF_A_STORE.contains(&name.as_str())) {
        return None;
    }
    names.retain(|name| !HARMLESS.contains(&name.as_str()));
    names.into_iter().min()
}

/// What is there of `path`: the nearest above it.
pub(super) fn nearest(path: &Path) -> &Path {
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
            assert_eq!(foreign(directory.path()).as_deref(), expected, "{names:?}");
        };
        check(&[], None);
        check(&["LOCK", "MANIFEST.tmp", "lost+found"], None);
        check(&["MANIFEST", "notes.txt"], None);
        check(&["MANIFEST.copy", "notes.txt"], None);
        check(&["journal", "notes.txt"], None);
        check(&["LOCK", "b.txt", "a.txt"], Some("a.txt"));
        check(&[".bashrc"], Some(".bashrc"));
        assert_eq!(foreign(Path::new("/nowhere/at/all")), None);
    }

    #[test]
    fn the_nearest_is_one_that_is_there() {
        assert_eq!(nearest(Path::new("/nowhere/at/all")), Path::new("/"));
        assert_eq!(nearest(Path::new("nowhere/at/all")), Path::new("."));
    }
}
