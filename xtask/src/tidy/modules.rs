//! Checks the imports between the modules of a crate: they form no cycle.
//!
//! A module is a file, a folder or an inline module right below `src`, with all that it contains. A module imports another
//! if its code names a path through it (`crate::other::…`, or by as many `super` as it is deep), or an item that the root of
//! the crate imports from it. A glob of the root imports every module. Tests do not count.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;

use super::Complaint;
use super::lines;
use super::tree::File;
use crate::process;

/// The place of this file.
const FILE: &str = "xtask/src/tidy/modules.rs";
/// The cycles that are left: the crate, and the modules of a cycle. This list only gets shorter, as
/// [`check_list`] makes sure.
pub(super) const CYCLES: &[(&str, &str)] = &[
    ("duly-node", "lanes nodes options pull recorder settler state traces waker watchdog"),
    (
        "duly-store-redis",
        "access change coordinators deployment health marker namespaces nodes older open quota \
         rollback router store wakeups",
    ),
];

/// The imports of a crate: each module with the modules that it imports.
type Imports = BTreeMap<String, BTreeSet<String>>;

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
        let imports = imports(folder, &texts);
        for cycle in cycles(&imports) {
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
        complaints.push(Complaint::about(FILE, text));
    }
    complaints
}

/// Complains of modules in the list that an earlier commit did not have in its list.
pub(super) fn check_list() -> Result<Vec<Complaint>> {
    let mut new = BTreeSet::new();
    for commit in process::git(&["log", "--format=%H", "--", FILE])?.lines() {
        let before = process::git(&["show", &format!("{commit}:{FILE}")])?;
        new.extend(added(CYCLES, &before));
    }
    let text = |it| format!("{it} is new in the list of cycles, which only gets shorter");
    Ok(new.into_iter().map(|it| Complaint::about(FILE, text(it))).collect())
}

/// Returns the modules of a list that are not in the list of this file's text.
fn added(list: &[(&str, &str)], before: &str) -> Vec<String> {
    let before = before.split("CYCLES: ").nth(1).unwrap_or_default();
    let before = before.split("];").next().unwrap_or_default().split('"').skip(1).step_by(2);
    let before: Vec<_> = before.collect();
    let known: BTreeSet<_> = before
        .chunks_exact(2)
        .flat_map(|entry| words(entry[1]).map(move |module| (entry[0], module)))
        .collect();
    let now = list.iter().flat_map(|(name, cycle)| words(cycle).map(move |module| (*name, module)));
    now.filter(|it| !known.contains(it)).map(|(name, it)| format!("{name}: {it}")).collect()
}

/// Returns the imports between the modules of a crate.
fn imports(folder: &str, files: &[(&str, String)]) -> Imports {
    let root = |file: &&(&str, String)| {
        ["lib.rs", "main.rs"].iter().any(|name| file.0 == format!("{folder}/src/{name}"))
    };
    let (roots, others): (Vec<_>, Vec<_>) = files.iter().partition(root);
    let mut parts: Vec<Part> = Vec::new();
    for (path, text) in others {
        let inside = path.split_once("/src/").map_or(*path, |(_, inside)| inside);
        let own = inside.split('/').next().unwrap_or_default().trim_end_matches(".rs");
        parts.extend(inline(own, inside.split('/').count(), text));
    }
    let mut exported = BTreeMap::new();
    let of_roots: Vec<_> = roots.iter().flat_map(|(_, text)| inline("", 0, text)).collect();
    let (of_roots, inside): (Vec<_>, Vec<_>) = of_roots.into_iter().partition(|it| it.depth == 0);
    let declared = of_roots.iter().flat_map(|it| it.text.lines()).filter_map(declared);
    let modules: BTreeSet<String> =
        declared.map(str::to_owned).chain(inside.iter().map(|it| it.module.clone())).collect();
    for statement in of_roots.iter().flat_map(|it| statements(&it.text)) {
        export(statement, &modules, &mut exported);
    }
    parts.extend(inside);
    let mut imports = Imports::new();
    for Part { module, depth, text } in &parts {
        let Some(own) = modules.get(module) else { continue };
        for head in heads(text, *depth) {
            let named = modules.get(head).or_else(|| exported.get(head).copied());
            let found = named.into_iter().chain(modules.iter().filter(|_| head == "*"));
            let found = found.filter(|module| *module != own).cloned();
            imports.entry(own.clone()).or_default().extend(found);
        }
    }
    imports
}

/// The code of a module right below the root, `depth` levels below it, without inline modules.
struct Part {
    module: String,
    depth: usize,
    text: String,
}

/// Returns the code of a module and of its inline modules. Those of the root, at depth 0, are modules themselves.
fn inline(module: &str, depth: usize, text: &str) -> Vec<Part> {
    let (mut own, mut parts, mut rest) = (String::new(), Vec::new(), text);
    while let Some((before, name, after)) = next_inline(rest) {
        own += before;
        let end = block_end(after);
        let module = if depth == 0 { name } else { module };
        parts.extend(inline(module, depth + 1, &after[..end]));
        rest = &after[end..];
    }
    own += rest;
    parts.push(Part { module: module.to_owned(), depth, text: own });
    parts
}

/// Returns the code before the next inline module, the name of the module, and the code from its block on.
fn next_inline(text: &str) -> Option<(&str, &str, &str)> {
    let begins = text.match_indices("mod ").filter(|(at, _)| !text[..*at].ends_with(is_word));
    begins.into_iter().find_map(|(at, prefix)| {
        let (name, after) = text[at + prefix.len()..].split_once(|c: char| !is_word(c))?;
        let block = after.strip_prefix('{')?;
        Some((&text[..at], name, block))
    })
}

/// Returns the place of the brace that ends a block, or the end of the text.
fn block_end(text: &str) -> usize {
    let mut depth = 0;
    let end = text.char_indices().find(|(_, char)| {
        depth += i32::from(*char == '{') - i32::from(*char == '}');
        depth < 0
    });
    end.map_or(text.len(), |(at, _)| at)
}

/// Returns the paths of the `use` statements at the beginnings of lines.
fn statements(text: &str) -> impl Iterator<Item = &str> {
    let uses = text.match_indices("use ").filter(|(at, _)| {
        let before = text[..*at].rsplit('\n').next().unwrap_or_default().trim();
        before.is_empty() || before.starts_with("pub")
    });
    uses.filter_map(|(at, prefix)| text[at + prefix.len()..].split(';').next())
}

/// Adds the names that a statement of the root imports from a module.
fn export<'m, 't>(
    path: &'t str,
    modules: &'m BTreeSet<String>,
    exported: &mut BTreeMap<&'t str, &'m String>,
) {
    let path = ["self::", "crate::"].iter().find_map(|it| path.strip_prefix(it)).unwrap_or(path);
    if let Some(group) = path.strip_prefix('{') {
        entries(group).into_iter().for_each(|entry| export(entry, modules, exported));
    } else if let Some(module) = words(path).next().and_then(|head| modules.get(head)) {
        exported.extend(words(path).skip(1).map(|name| (name, module)));
    }
}

/// Returns the name of the module that a line declares.
fn declared(line: &str) -> Option<&str> {
    let (before, name) = line.trim().strip_suffix(';')?.split_once("mod ")?;
    (before.is_empty() || before.starts_with("pub")).then_some(name)
}

/// Returns the heads of the paths of a text that begin at the root of the crate: `*` for all of them. The text is of a
/// module `depth` levels below the root.
fn heads(text: &str, depth: usize) -> Vec<&str> {
    let from = |prefix: &str, levels: usize| -> Vec<&str> {
        let begins = text.match_indices(prefix).map(|(at, _)| (at, at + prefix.len()));
        let is_first = |at: usize| !text[..at].ends_with(|c| is_word(c) || c == ':');
        let begins = begins.filter(|(at, _)| is_first(*at));
        begins.flat_map(|(_, end)| heads_of(&text[end..], levels)).collect()
    };
    let names = ["use crate as ", "crate::{self as "].into_iter();
    let names = names.flat_map(|it| text.split(it).skip(1)).filter_map(|it| words(it).next());
    let mut found = [from("crate::", 0), from("super::", depth - 1)].concat();
    found.extend(names.flat_map(|name| from(&format!("{name}::"), 0)));
    found
}

/// Returns the first names of a path, `levels` further up: several of a group.
fn heads_of(path: &str, levels: usize) -> Vec<&str> {
    if let Some(group) = path.strip_prefix('{') {
        return entries(group).into_iter().flat_map(|it| heads_of(it, levels)).collect();
    }
    match path.strip_prefix("super::") {
        Some(above) => heads_of(above, levels.saturating_sub(1)),
        None if levels == 0 && path.starts_with('*') => vec!["*"],
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

fn is_word(char: char) -> bool {
    char.is_alphanumeric() || char == '_'
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !is_word(c)).filter(|word| !word.is_empty())
}

/// Returns the code of a file, without its comments, its texts and its tests.
fn code(text: &str) -> String {
    let text = without_texts(text);
    let (mut code, mut rest) = (String::new(), &*text);
    while let Some((before, after)) = rest.split_once("#[cfg(test)]") {
        code += before;
        rest = &after[item_end(after)..];
    }
    code + rest
}

/// Returns the end of the item at the beginning of a text: its semicolon, or the brace of its body.
fn item_end(text: &str) -> usize {
    let is_import = words(text).take(4).any(|word| word == "use");
    let mut depth = 0;
    let end = text.char_indices().find(|(_, char)| {
        depth += i32::from("{([".contains(*char)) - i32::from("})]".contains(*char));
        depth == 0 && (*char == ';' || *char == '}' && !is_import)
    });
    end.map_or(text.len(), |(at, char)| at + char.len_utf8())
}

/// Returns a text without comments, and without the contents of strings and characters.
fn without_texts(text: &str) -> String {
    let (mut code, mut rest) = (String::new(), text);
    while let Some(char) = rest.chars().next() {
        let length = match char {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
            '"' => quoted(rest, '"'),
            'r' if !code.ends_with(is_word) || code.ends_with('b') => raw(rest),
            // A lifetime has no second quote after one character.
            '\'' if rest.starts_with("'\\") => quoted(rest, '\''),
            '\'' if rest.chars().nth(2) == Some('\'') => quoted(rest, '\''),
            _ => 0,
        };
        if length == 0 {
            code.push(char);
        }
        rest = &rest[length.max(char.len_utf8())..];
    }
    code
}

/// Returns the length of the string or character at the beginning of a text.
fn quoted(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    let end = text.char_indices().skip(1).find(|(_, char)| {
        let is_end = *char == quote && !is_escaped;
        is_escaped = *char == '\\' && !is_escaped;
        is_end
    });
    end.map_or(text.len(), |(at, _)| at + 1)
}

/// Returns the length of the raw string at the beginning of a text; 0 if there is none.
fn raw(text: &str) -> usize {
    let hashes = text[1..].chars().take_while(|char| *char == '#').count();
    let Some(body) = text[1 + hashes..].strip_prefix('"') else { return 0 };
    let close = format!("\"{}", "#".repeat(hashes));
    body.find(&close).map_or(text.len(), |end| 2 + hashes + end + close.len())
}

/// Returns the modules of each cycle: those that reach each other.
fn cycles(imports: &Imports) -> Vec<Vec<&str>> {
    let reached = |from: &str| {
        let (mut seen, mut next) = (BTreeSet::new(), vec![from.to_owned()]);
        while let Some(module) = next.pop() {
            let further = imports.get(&module).into_iter().flatten();
            next.extend(further.filter(|module| seen.insert(module.as_str())).cloned());
        }
        seen
    };
    let reach: BTreeMap<_, _> =
        imports.keys().map(|module| (module.as_str(), reached(module))).collect();
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
        let root = "mod a;\npub(crate) mod b;\nmod c;\npub use self::{b::{Item, Other as Third}, c::Last};\n\
                    use b::Own;\npub(crate) use crate::b::Near;\nmod d {\n    use super::a;\n}\n";
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
            ("use crate::Own;", "use crate::a;", "", Some("a, b")),
            ("use crate::Near;", "use crate::a;", "", Some("a, b")),
            ("use crate as root;\nuse root::b;", "use crate::a;", "", Some("a, b")),
            ("use crate::{self as root};\nuse root::b;", "use crate::a;", "", Some("a, b")),
            ("use crate::*;\nuse b::Item;", "use crate::a;", "", Some("a, b")),
            ("use super::*;", "use crate::a;", "", Some("a, b")),
            ("use crate::b;", "use super::*;", "", None),
            ("use crate::b;", "fn f() { g(\"//\", crate::a::g()) }", "", Some("a, b")),
            ("use crate::b;", "fn f() { g(\"crate::a\", r#\"crate::a \"\"#, '\"') }", "", None),
            ("use crate::b;", "fn f<'a>(_: &'a ()) { crate::a::g('\"') }", "", Some("a, b")),
            ("use crate::b;", "/* crate::a */", "", None),
            (
                "use crate::b;",
                "#[cfg(test)]\nmod tests {\n    mod c {}\n}\nuse crate::a;",
                "",
                Some("a, b"),
            ),
            ("use crate::b;", "#[cfg(test)]\nfn f() {\n    crate::a::g()\n}", "", None),
            ("use crate::b;", "#[cfg(test)]\nuse crate::{\n    a,\n};", "", None),
            ("use crate::b;", "mod c {\n    use super::super::super::a;\n}", "", Some("a, b")),
            ("use crate::b;", "mod c {\n    use super::super::a;\n}", "", None),
            ("use crate::d;", "", "", Some("a, d")),
        ] {
            let found = complaints(&files(a, b, c), &[]);
            assert_eq!(found.len(), usize::from(cycle.is_some()), "{a} {b} {c}: {found:?}");
            assert!(found.iter().all(|text| text.contains(cycle.unwrap_or_default())), "{found:?}");
        }
        let cycle = files("use crate::b;", "use crate::a;", "");
        assert_eq!(complaints(&cycle, &[("x", "a b")]), [""; 0]);
        let larger = files("use crate::b;", "use crate::c;", "use crate::a;");
        assert_eq!(complaints(&larger, &[("x", "a b")]).len(), 1, "c is new");
        let before = "const CYCLES: &[(&str, &str)] = &[\n    (\"x\", \"a \\\n     b\"),\n];";
        assert_eq!(added(&[("x", "b")], before), [""; 0]);
        assert_eq!(added(&[("x", "a b c"), ("y", "a")], before), ["x: c", "y: a"]);
        let smaller = complaints(&cycle, &[("x", "a b c")]);
        assert!(smaller[0].starts_with("x: c are in no cycle"), "{smaller:?}");
    }
}
