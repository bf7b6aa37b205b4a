//! `cargo xtask tidy --lines`: counts the lines of code of each crate.
//!
//! Blank lines, comments, tests and generated code do not count. Code that only tests use does not count
//! either: modules behind `#[cfg(test)]`, the conformance suites, the strategies of property tests, the
//! simulated disk.

use std::collections::BTreeMap;

use super::tree::File;

/// Crates that measure or test Duly; all others are the product.
const HARNESS: [&str; 5] =
    ["duly-bench", "duly-checker", "duly-redis-testkit", "duly-testkit", "xtask"];

/// Modules of product crates that only tests use.
const FOR_TESTS: [&str; 3] = ["/conformance", "/strategies", "/disk/sim"];

/// Returns a table of the crates with their lines: the product, then the rest, each with its sum.
pub(super) fn table(files: &[File]) -> String {
    let (mut product, mut harness) = (BTreeMap::new(), BTreeMap::new());
    for file in without_tests(files) {
        let name = crate_name(&file.path);
        let part = if HARNESS.contains(&name) { &mut harness } else { &mut product };
        let scripts = if file.path.ends_with(".lua") { ", Lua" } else { "" };
        *part.entry(format!("{name}{scripts}")).or_insert(0) += count_code(&file.text);
    }
    let mut text = String::new();
    for (title, part) in [("product", product), ("measuring, tests, tools", harness)] {
        for (name, lines) in &part {
            text += &format!("{lines:>8}  {name}\n");
        }
        text += &format!("{:>8}  {title}\n\n", part.values().sum::<usize>());
    }
    text
}

/// Returns the files that are not for tests.
pub(super) fn without_tests(files: &[File]) -> impl Iterator<Item = &File> {
    let for_tests = test_modules(files);
    let is_for_tests = move |file: &File| for_tests.iter().any(|module| is_in(&file.path, module));
    files.iter().filter(move |file| is_counted(file) && !is_for_tests(file))
}

fn is_counted(file: &File) -> bool {
    let is_source = file.path.contains("/src/");
    let is_for_tests = FOR_TESTS.iter().any(|part| file.path.contains(part));
    is_source && !file.is_test() && !file.is_generated() && !is_for_tests
}

/// Returns the paths, without `.rs`, of the modules that are compiled for tests only.
fn test_modules(files: &[File]) -> Vec<String> {
    let mut found = Vec::new();
    for File { path, text } in files {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let folder = match name {
            "lib.rs" | "main.rs" | "mod.rs" => folder.to_owned(),
            name => format!("{folder}/{}", name.trim_end_matches(".rs")),
        };
        let mut lines = text.lines().map(str::trim);
        while let Some(line) = lines.next() {
            if line != "#[cfg(test)]" {
                continue;
            }
            let item = lines.by_ref().find(|line| !line.starts_with('#')).unwrap_or_default();
            if let Some((_, name)) = item.trim_end_matches(';').split_once("mod ")
                && item.ends_with(';')
            {
                found.push(format!("{folder}/{name}"));
            }
        }
    }
    found
}

/// Returns `true` if a file is this module or a part of it.
fn is_in(path: &str, module: &str) -> bool {
    path.strip_prefix(module).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
}

fn crate_name(path: &str) -> &str {
    let path = path.strip_prefix("crates/").unwrap_or(path);
    path.split('/').next().unwrap_or(path)
}

/// Counts the lines of a file up to its inline test module.
fn count_code(text: &str) -> usize {
    let is_code =
        |line: &&str| !line.is_empty() && !line.starts_with("//") && !line.starts_with("--");
    let mut lines = text.lines().map(str::trim);
    let mut count = 0;
    while let Some(line) = lines.next() {
        if line == "#[cfg(test)]" {
            let item = lines.by_ref().find(|line| !line.starts_with('#')).unwrap_or_default();
            if item.starts_with("mod ") && item.ends_with('{') {
                break;
            }
            count += 2;
        } else {
            count += usize::from(is_code(&line));
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_counted_without_comments_and_tests() {
        assert_eq!(count_code("//! Doc.\n\nuse a;\n// why\nfn f() {\n}\n"), 3);
        assert_eq!(count_code("fn f() {}\n#[cfg(test)]\nmod tests {\n    fn g() {}\n}\n"), 1);
        assert_eq!(count_code("#[cfg(test)]\nmod tests;\nfn f() {}\n"), 3);
        assert_eq!(count_code("-- what it does\nlocal a = 1\n"), 1);
    }

    #[test]
    fn the_product_is_counted_apart() {
        let file = |path: &str| File { path: path.to_owned(), text: "fn f() {}\n".to_owned() };
        let files = [
            "crates/duly-core/src/lib.rs",
            "crates/duly-core/src/tests.rs",
            "crates/duly-core/tests/it/main.rs",
            "crates/duly-store/src/conformance/cases.rs",
            "crates/duly-bench/src/lib.rs",
        ];
        let mut files = files.map(file).to_vec();
        files[0].text += "#[cfg(test)]\npub(crate) mod fixture;\n";
        files.push(file("crates/duly-core/src/fixture.rs"));
        files.push(file("crates/duly-core/src/fixture/part.rs"));
        let table = table(&files);
        assert!(table.contains("       3  duly-core\n       3  product\n"), "{table}");
        assert!(table.contains("       1  duly-bench\n"), "{table}");
    }
}
