//! Checks the imports between the modules of a crate: they form no cycle.
//!
//! A module is a file or folder right below `src`, with all that it contains. A module imports another if its code
//! names a path through it (`crate::other::…`, or by as many `super` as it is deep), or an item that the root of the crate exports from it. Tests do not
//! count.

use std::collections::{BTreeMap, BTreeSet};

use super::Complaint;
use super::lines;
use super::tree::File;

/// The cycles that are left: the crate, and the modules of a cycle. This list only gets shorter.
pub(super) const CYCLES: &[(&str, &str)] = &[
    ("duly-node", "lanes nodes options pull recorder settler state traces waker watchdog"),
    (
        "duly-store-redis",
        "access change coordinators deployment health marker namespaces nodes older open quota \
         rollback router store wakeups",
    ),
];

/// The imports of a crate: each module with the modules that it imports.
type Imports<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// Complains of cycles that are not in the list, and of entries of the list that no cycle has any more.
pub(super) fn check(sources: &[File], allowed: &[(&str, &str)]) -> Vec<Complaint> {
    let counted = lines::without_tests(sources);
    let mut crates: BTreeMap<&str, Vec<&File>> = BTreeMap::new();
    for file in counted {
        if let Some((folder, _)) = file.path.split_once("/src/") {
            crates.entry(folder).or_default().push(file);
        }
    }
    let mut complaints = Vec::new();
    let listed = allowed.iter().map(|(name, cycle)| (*name, words(cycle).collect::<Vec<_>>()));
    let mut left: Vec<_> = listed.collect();
    for (folder, files) in crates {
        let name = folder.rsplit('/').next().unwrap_or(folder);
        let texts: Vec<_> = files.iter().map(|file| (&*file.path, code(&file.text))).collect();
        for cycle in cycles(&imports(folder, &texts)) {
            let known = left.iter_mut().find(|(owner, known)| {
                *owner == name && cycle.iter().any(|module| known.contains(module))
            });
            let mut new = cycle.clone();
            if let Some((_, known)) = known {
                new.retain(|it| !known.contains(it));
                known.retain(|it| !cycle.contains(it));
            }
            if !new.is_empty() {
                let text = format!(
                    "the imports of the modules {} form a cycle with {}: move what both need to where both can use it",
                    cycle.join(", "),
                    new.join(", ")
                );
                complaints.push(Complaint::about(&format!("{folder}/src"), text));
            }
        }
    }
    for (name, modules) in left.into_iter().filter(|(_, modules)| !modules.is_empty()) {
        let text =
            format!("{name}: {} are in no cycle any more: remove them here", modules.join(", "));
        complaints.push(Complaint::about("xtask/src/tidy/modules.rs", text));
    }
    complaints
}

/// Returns the imports between the modules of a crate.
fn imports<'a>(folder: &str, files: &'a [(&str, String)]) -> Imports<'a> {
    let root = |file: &&(&str, String)| {
        ["lib.rs", "main.rs"].iter().any(|name| file.0 == format!("{folder}/src/{name}"))
    };
    let roots: Vec<_> = files.iter().filter(root).collect();
    let modules: BTreeSet<&str> =
        roots.iter().flat_map(|(_, text)| text.lines()).filter_map(declared).collect();
    let mut exported = BTreeMap::new();
    for (_, text) in &roots {
        for part in text.split("pub use ").skip(1) {
            let part = part.split(';').next().unwrap_or_default();
            // The items that follow a module in a group are of this module, up to the next module.
            let mut of = None;
            for word in words(part) {
                of = modules.get(word).or(of);
                exported.extend(of.map(|module| (word, *module)));
            }
        }
    }
    let mut imports = Imports::new();
    for (path, text) in files {
        let inside = path.split_once("/src/").map_or(*path, |(_, inside)| inside);
        let own = inside.split('/').next().unwrap_or_default().trim_end_matches(".rs");
        let Some(own) = modules.get(own) else { continue };
        for head in heads(text, inside.split('/').count()) {
            let module = modules.get(head).or_else(|| exported.get(head));
            if let Some(module) = module.filter(|module| *module != own) {
                imports.entry(*own).or_default().insert(module);
            }
        }
    }
    imports
}

/// Returns the name of the module that a line declares.
fn declared(line: &str) -> Option<&str> {
    let (before, name) = line.trim().strip_suffix(';')?.split_once("mod ")?;
    (before.is_empty() || before.starts_with("pub")).then_some(name)
}

/// Returns the heads of the paths of a text that begin at the root of the crate. The text is of a module `depth` levels
/// below the root.
fn heads(text: &str, depth: usize) -> Vec<&str> {
    let from = |prefix: &'static str, levels: usize| {
        let begins = text.match_indices(prefix).map(|(at, _)| at);
        let begins = begins.filter(|at| !text[..*at].ends_with("super::"));
        begins.flat_map(move |at| heads_of(&text[at + prefix.len()..], levels))
    };
    from("crate::", 0).chain(from("super::", depth - 1)).collect()
}

/// Returns the first names of a path, `levels` further up: several of a group.
fn heads_of(path: &str, levels: usize) -> Vec<&str> {
    if let Some(group) = path.strip_prefix('{') {
        return entries(group).into_iter().flat_map(|it| heads_of(it, levels)).collect();
    }
    match path.strip_prefix("super::") {
        Some(above) => heads_of(above, levels.saturating_sub(1)),
        None if levels == 0 => words(path).take(1).collect(),
        None => Vec::new(),
    }
}

/// Returns the entries of a group, which ends with its brace.
fn entries(group: &str) -> Vec<&str> {
    let (mut depth, mut begin, mut found) = (0, 0, Vec::new());
    for (at, char) in group.char_indices() {
        let ends = depth == 0 && matches!(char, ',' | '}');
        if ends {
            found.push(group[begin..at].trim());
            begin = at + 1;
        }
        match char {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            _ => {}
        }
    }
    found
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

/// Returns the code of a file, without its comments and its tests.
fn code(text: &str) -> String {
    let mut code = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.trim() == "#[cfg(test)]" {
            // The inline tests of a file are its end; any other item for tests is one statement.
            match lines.by_ref().find(|line| !line.trim().starts_with('#')) {
                Some(item) if item.starts_with("mod ") && item.ends_with('{') => break,
                Some(item) if item.ends_with(';') => {}
                Some(item) if item.trim().starts_with("use ") || item.contains(" use ") => {
                    lines.by_ref().find(|line| line.ends_with(';'));
                }
                _ => {}
            }
            continue;
        }
        let end = line.find("//").unwrap_or(line.len());
        code += &line[..end];
        code.push('\n');
    }
    code
}

/// Returns the modules of each cycle: those that reach each other.
fn cycles<'a>(imports: &Imports<'a>) -> Vec<Vec<&'a str>> {
    let reached = |from: &'a str| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
        while let Some(module) = next.pop() {
            let further = imports.get(module).into_iter().flatten();
            next.extend(further.filter(|module| seen.insert(**module)));
        }
        seen
    };
    let reach: BTreeMap<_, _> = imports.keys().map(|module| (*module, reached(module))).collect();
    let mut found: Vec<Vec<&str>> = Vec::new();
    for (module, all) in &reach {
        if !all.contains(module) || found.iter().any(|cycle| cycle.contains(module)) {
            continue;
        }
        let is_in = |other: &&&str| reach.get(**other).is_some_and(|back| back.contains(module));
        found.push(all.iter().filter(is_in).copied().collect());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    fn complaints(files: &[File], allowed: &[(&str, &str)]) -> Vec<String> {
        check(files, allowed).into_iter().map(|it| it.text).collect()
    }

    #[test]
    fn cycles_between_modules_are_found() {
        let root = "mod a;\npub(crate) mod b;\nmod c;\npub use self::{b::{Item, Other as Third}, c::Last};\n";
        let files = |a: &str, b: &str, c: &str| {
            [
                file("crates/x/src/lib.rs", root),
                file("crates/x/src/a.rs", a),
                file("crates/x/src/b/part.rs", b),
                file("crates/x/src/c.rs", c),
            ]
        };
        for (a, b, c, cycle) in [
            ("use crate::b::Item;", "use crate::c;", "", None),
            ("use crate::b::Item;", "use crate::a::Thing;", "", Some("a, b")),
            ("use crate::Item;", "fn f() { crate::a::g() }", "", Some("a, b")),
            ("use crate::{\n    c::{b, d},\n    Third,\n};", "use crate::{a};", "", Some("a, b")),
            ("use crate::{c::b};", "use crate::a;", "use crate::b;", Some("a, b, c")),
            ("use crate::Last;", "use crate::a;", "", None),
            ("use crate::Last;", "", "use crate::a;", Some("a, c")),
            ("use super::b;", "use super::a;", "", None),
            ("use super::b;", "use super::super::a;", "", Some("a, b")),
            ("use super::b;", "use super::{c, super::{a, c}};", "", Some("a, b")),
            ("use super::b;", "fn f() { super::super::a::g() }", "", Some("a, b")),
            ("use super::b;", "use super::super::super::a;", "", Some("a, b")),
            ("use super::b;", "use super::{super::c, a};", "", None),
            ("use crate::b;", "// crate::a\n#[cfg(test)]\nuse crate::a;", "", None),
            ("use crate::b;", "#[cfg(test)]\nmod tests {\n    use crate::a;\n}", "", None),
        ] {
            let found = complaints(&files(a, b, c), &[]);
            assert_eq!(found.len(), usize::from(cycle.is_some()), "{a} {b} {c}: {found:?}");
            assert!(found.iter().all(|text| text.contains(cycle.unwrap_or_default())), "{found:?}");
        }
        let cycle = files("use crate::b;", "use crate::a;", "");
        assert_eq!(complaints(&cycle, &[("x", "a b")]), [""; 0]);
        let larger = files("use crate::b;", "use crate::c;", "use crate::a;");
        assert_eq!(complaints(&larger, &[("x", "a b")]).len(), 1, "c is new");
        let smaller = complaints(&cycle, &[("x", "a b c")]);
        assert!(smaller[0].starts_with("x: c are in no cycle"), "{smaller:?}");
    }
}
