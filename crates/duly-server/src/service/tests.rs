//! The fronts decide nothing: they reach the store, the node and the audit log through the operations alone.

use std::{fs, path::Path};

/// Paths past the rules of the service, in the code of a front.
const PAST_THE_RULES: [&str; 6] =
    [".sharded()", ".node.", ".audit.check", ".audit.note", ".store.", ".tenant()"];
/// What a front may read itself: the health of the store.
const READ: [&str; 2] = [".store.health()", ".store.terminal_error()"];

/// Calls `check` with the path and the text of each file below a folder.
fn each_file(folder: &Path, check: &mut impl FnMut(&Path, &str)) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            each_file(&path, check);
        } else if !path.ends_with("tests.rs") {
            check(&path, &fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn no_front_goes_past_the_rules_of_the_service() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut count = 0;
    for front in ["http", "grpc"] {
        each_file(&source.join(front), &mut |path, text| {
            count += 1;
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            let code = READ.iter().fold(code.to_owned(), |code, read| code.replace(read, ""));
            for past in PAST_THE_RULES {
                assert!(!code.contains(past), "{}: {past}", path.display());
            }
        });
    }
    assert!(count > 20, "{count} files");
}
