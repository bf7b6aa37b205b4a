//! Tests of the rules: each one finds a planted violation and accepts valid input, and this checkout
//! obeys all of them.

use super::tree::{File, Tree};
use super::{
    client_tls, complaints, docs, layers, links, manifests, marks, names, promises, sizes,
};
use crate::process;

fn file(path: &str, text: &str) -> File {
    File { path: path.to_owned(), text: text.to_owned() }
}

#[test]
fn this_checkout_is_tidy() {
    let tree = Tree::read(process::root()).unwrap();
    assert!(tree.sources.iter().any(|source| source.path == "xtask/src/tidy.rs"));
    assert!(tree.manifests.iter().any(|manifest| manifest.path == "crates/duly/Cargo.toml"));
    assert!(tree.pages.iter().any(|page| page.path == "README.md"));
    assert!(tree.pages.iter().any(|page| page.path == "docs/guide/delivery-guarantees.md"));
    let found: Vec<String> = complaints(&tree).unwrap().iter().map(ToString::to_string).collect();
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

#[test]
fn dependencies_point_downward() {
    for (name, section, used, allowed) in [
        ("duly-store", "dependencies", "duly-core", true),
        ("duly-core", "dependencies", "duly-store", false),
        ("duly-core", "build-dependencies", "duly-store", false),
        ("duly-core", "target.'cfg(unix)'.dependencies", "duly-store", false),
        ("duly-core", "dev-dependencies", "duly-testkit", true),
        ("duly-server", "dependencies", "duly-testkit", false),
        ("duly-server", "dependencies", "duly-server", false),
        ("duly-core", "dependencies", "tokio", false),
        ("duly-core", "dev-dependencies", "tokio", true),
        ("duly-store", "dependencies", "tokio", true),
        ("duly-sink", "dependencies", "duly-store", false),
        ("duly-node", "dependencies", "duly-store", true),
        ("duly-node", "dependencies", "duly-store-embedded", false),
        ("duly-unheard-of", "dependencies", "duly-core", false),
        ("xtask", "dependencies", "duly-core", false),
        ("xtask", "dependencies", "clap", true),
    ] {
        let text = format!("[package]\nname = \"{name}\"\n[{section}]\n{used}.workspace = true\n");
        let manifest = file("crates/x/Cargo.toml", &text);
        let found = layers::check(&manifest, &manifests::parse(&manifest).unwrap());
        assert_eq!(found.is_empty(), allowed, "{name} {section} {used}: {found:?}");
    }
}

#[test]
fn a_renamed_dependency_is_known_by_its_package() {
    let manifest = file(
        "crates/x/Cargo.toml",
        "[package]\nname = \"duly-core\"\n[dependencies]\nkv = { package = \"duly-store\", workspace = true }\n",
    );
    assert_eq!(layers::check(&manifest, &manifests::parse(&manifest).unwrap()).len(), 1);
}

#[test]
fn versions_stand_in_the_root_manifest() {
    const PACKAGE: &str = "[package]\nname = \"x\"\nversion.workspace = true\n\
        edition.workspace = true\nrust-version.workspace = true\nlicense.workspace = true\n";
    for (entry, complaints) in [
        ("bytes.workspace = true", 0),
        ("bytes = { workspace = true, features = [\"serde\"] }", 0),
        ("bytes = \"1\"", 1),
        ("bytes = { version = \"1\" }", 1),
        ("bytes = { workspace = true, version = \"1\" }", 1),
        ("bytes = { git = \"somewhere\" }", 1),
        ("bytes = { path = \"../bytes\" }", 1),
        ("bytes = \"1\"\nhttp = \"1\"", 2),
    ] {
        for section in ["dependencies", "dev-dependencies", "target.'cfg(unix)'.dependencies"] {
            let manifest = file("crates/x/Cargo.toml", &format!("{PACKAGE}[{section}]\n{entry}\n"));
            let found = manifests::check(&manifest, &manifests::parse(&manifest).unwrap());
            assert_eq!(found.len(), complaints, "[{section}] {entry}: {found:?}");
        }
    }
    let own_version = file(
        "crates/x/Cargo.toml",
        &PACKAGE.replace("version.workspace = true\ned", "version = \"1.0.0\"\ned"),
    );
    let found = manifests::check(&own_version, &manifests::parse(&own_version).unwrap());
    assert_eq!(found.len(), 1, "{found:?}");
}

#[test]
fn nameless_files_are_refused() {
    for (path, allowed) in [
        ("crates/x/src/claim.rs", true),
        ("crates/x/src/type_names.rs", true),
        ("crates/x/src/utils.rs", false),
        ("crates/x/src/utils/time.rs", false),
        ("crates/x/src/types.rs", false),
        ("crates/x/src/misc/mod.rs", false),
        ("crates/x/tests/common/mod.rs", false),
        ("crates/x/src/store/helpers.rs", false),
    ] {
        assert_eq!(names::check(&file(path, "")).is_none(), allowed, "{path}");
    }
}

#[test]
fn tls_to_servers_without_a_bound_is_found() {
    let lines = |path: &str, text: &str| -> Vec<_> {
        client_tls::check(&file(path, text)).into_iter().map(|it| it.line).collect()
    };
    let own = "let config = ClientConfig::builder_with_provider(provider)";
    assert_eq!(lines("crates/x/src/a.rs", &format!("//! A.\n{own}\n")), [Some(2)]);
    assert_eq!(lines("crates/x/src/a.rs", "reqwest::Client::builder().build()"), [Some(1)]);
    assert_eq!(lines("crates/x/src/a.rs", "reqwest::ClientBuilder::new().build()"), [Some(1)]);
    let bounded = "reqwest::Client::builder().tls_backend_preconfigured(config)";
    for (path, text) in [
        ("crates/duly-tls/src/client.rs", own),
        ("crates/x/tests/it/a.rs", own),
        ("crates/x/src/a.rs", bounded),
    ] {
        assert_eq!(lines(path, text), [], "{path}");
    }
}

#[test]
fn marks_are_found_with_their_line() {
    let planted = [
        concat!("// TO", "DO: later"),
        concat!("// FIX", "ME"),
        concat!("// XX", "X what about this?"),
        concat!("    to", "do!()"),
        concat!("    unimple", "mented!(\"later\")"),
        concat!("#[ig", "nore]"),
        concat!("#[ig", "nore = \"slow\"]"),
    ];
    for line in planted {
        let found = marks::check(&file("crates/x/src/a.rs", &format!("//! A.\n{line}\n")));
        assert_eq!(found.len(), 1, "{line}");
        assert_eq!(found[0].line, Some(2), "{line}");
        assert!(marks::check(&file("crates/x/src/generated/a.rs", line)).is_empty());
    }
    let fine = "fn f() { let todo_list = 1; ignore(METHODOLOGY); \"XXXX\"; }";
    assert!(marks::check(&file("crates/x/src/a.rs", fine)).is_empty());
}

#[test]
fn modules_open_with_a_doc() {
    for (path, text, allowed) in [
        ("crates/x/src/a.rs", "//! Claims.\nfn f() {}\n", true),
        ("crates/x/src/a.rs", "#![allow(unused)]\n\n//! Claims.\n", true),
        ("crates/x/src/a.rs", "#![allow(\n    unused,\n)]\n//! Claims.\n", true),
        ("crates/x/src/a.rs", "fn f() {}\n//! Claims.\n", false),
        ("crates/x/src/a.rs", "// Claims.\nfn f() {}\n", false),
        ("crates/x/src/a.rs", "//!\nfn f() {}\n", false),
        ("crates/x/src/a.rs", "", false),
        ("crates/x/src/a/tests.rs", "use super::*;\n", true),
        ("crates/x/tests/it/main.rs", "mod serve;\n", true),
        ("crates/x/examples/first.rs", "fn main() {}\n", true),
        ("crates/x/src/generated/a.rs", "fn f() {}\n", true),
    ] {
        assert_eq!(docs::check(&file(path, text)).is_none(), allowed, "{path}: {text:?}");
    }
}

#[test]
fn long_files_are_refused_unless_excepted() {
    let long = |path: &str, lines: usize| vec![file(path, &"x\n".repeat(lines))];
    let none: &[(&str, &str)] = &[];
    let one: &[(&str, &str)] = &[("crates/x/src/a.rs", "a reason")];
    for (sources, exceptions, complaints) in [
        (long("crates/x/src/a.rs", 500), none, 0),
        (long("crates/x/src/a.rs", 501), none, 1),
        (long("crates/x/src/a.rs", 501), one, 0),
        (long("crates/x/src/a.rs", 500), one, 1),
        (long("crates/x/src/b.rs", 10), one, 1),
        (long("crates/x/src/a/tests.rs", 800), none, 0),
        (long("crates/x/src/a/tests.rs", 801), none, 1),
        (long("crates/x/tests/it/main.rs", 700), none, 0),
        (long("crates/x/src/generated/a.rs", 9000), none, 0),
    ] {
        let found = sizes::check(&sources, exceptions);
        assert_eq!(found.len(), complaints, "{found:?}");
    }
}

#[test]
fn links_between_pages_lead_somewhere() {
    let other = "# The *other* page\n\n## `duly store` backup, twice\n## Again\n## Again\n";
    let paths: std::collections::BTreeSet<String> =
        ["README.md", "docs", "docs/a.md", "docs/guide", "docs/guide/b.md", "docs/guide/c.py"]
            .map(str::to_owned)
            .into();
    for (link, allowed) in [
        ("[b](guide/b.md)", true),
        ("[`b`](guide/b.md \"a title\")", true),
        ("[b](./guide/../guide/c.py) and [root](../README.md)", true),
        ("[folder](guide/)", true),
        ("[absent](guide/absent.md)", false),
        ("[b](guide/b.md) and [absent](absent.md)", false),
        ("[from the root](docs/a.md)", false),
        ("[too far](../../README.md)", false),
        ("[heading](guide/b.md#the-other-page)", true),
        ("[heading](guide/b.md#duly-store-backup-twice)", true),
        ("[heading](guide/b.md#again-1)", true),
        ("[heading](guide/b.md#again-2)", false),
        ("[heading](guide/b.md#absent)", false),
        ("[here](#a)", true),
        ("[here](#absent)", false),
        ("[line](guide/c.py#L7)", true),
        ("[site](https://example.com/absent.md)", true),
        ("`[code](absent.md)`", true),
        ("```text\n[fenced](absent.md)\n```", true),
        ("```text\n```\n[behind a fence](absent.md)", false),
    ] {
        let page = file("docs/a.md", &format!("# A\n\n{link}\n"));
        let found = links::check(&[page, file("docs/guide/b.md", other)], &paths);
        assert_eq!(found.is_empty(), allowed, "{link}: {found:?}");
    }
}

#[test]
fn each_promise_names_tests_that_exist() {
    let store = "/// * **P1 durable**: it is there.\n/// * **P2 never early**: not\n";
    let sources = [
        file("crates/duly-store/src/store.rs", store),
        file("crates/x/tests/it/a.rs", "#[test]\nfn it_is_there() {}\nasync fn never() {}\n"),
    ];
    let durable = "## P1 Durable\n\n*Shown by* `it_is_there`.\n\n";
    let early = "## P2 Never early\n\n*Shown by* `it_is_there`, `never`.\n";
    for (page, complaints) in [
        (format!("{durable}{early}"), 0),
        (durable.to_owned(), 1),
        (format!("{durable}## P2 Never early\n\n`never`\n"), 1),
        (format!("{durable}{}", early.replace("`never`", "`it_was_renamed`")), 1),
        (format!("{durable}## P2 Always early\n\n*Shown by* `never`\n"), 1),
        (format!("{durable}{early}## More\n\n*Shown by* `nothing`\n"), 1),
    ] {
        let page = file("docs/guide/delivery-guarantees.md", &page);
        let found = promises::check(std::slice::from_ref(&page), &sources);
        assert_eq!(found.len(), complaints, "{}: {found:?}", page.text);
    }
}
