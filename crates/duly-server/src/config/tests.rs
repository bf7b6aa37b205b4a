use std::{fs, path::Path};

use super::{cross::connections_within, keys::KEYS, *};

mod example;
mod limits_page;
mod refusals;

fn file(text: &str) -> (tempfile::TempDir, Source) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("duly.toml");
    fs::write(&path, text).unwrap();
    let source = Source { file: Some(path), ..Source::default() };
    (directory, source)
}

fn env(name: &str, value: &str) -> Source {
    Source { env: vec![(name.into(), value.into())], ..Source::default() }
}

fn flag(value: &str) -> Flag {
    Flag { flag: "--listen".into(), key: "server.listen", value: value.into() }
}

#[test]
fn nothing_has_to_be_said() {
    let config = load(&Source::default()).unwrap();
    assert_eq!(config.server.listen.0[0].to_string(), "127.0.0.1:3859");
    assert_eq!(&*config.store.data, Path::new("./duly-data"));
    assert_eq!(config.server.body_bytes_max.get(), 32 * 1024 * 1024);
    assert_eq!(config.delivery.workers_max.get(), 1024);
    assert_eq!(config.store.index_memory_max, None);
    assert_eq!(config.drain.timeout.to_std().as_secs(), 25);
    assert!(config.effective().all(|(_, e)| e.origin == Origin::Default));
}

#[test]
fn p10_request_memory_follows_process_memory() {
    const MIB: u64 = 1024 * 1024;
    for (limit, expected) in
        [(64 * MIB, 32), (512 * MIB, 64), (1024 * MIB, 128), (4096 * MIB, 256), (u64::MAX, 256)]
    {
        assert_eq!(eighth_of(limit) as u64, expected * MIB, "of {limit}");
    }
    let source = Source {
        env: vec![("DULY_SERVER__REQUEST_MEMORY_MAX".into(), "auto".into())],
        ..Source::default()
    };
    let own = eighth_of(memory_limit());
    assert_eq!(or_eighth(load(&source).unwrap().server.request_memory_max), own);
}

#[test]
fn p10_default_connection_limit_follows_process_memory() {
    const MIB: u64 = 1024 * 1024;
    for (limit, expected) in [(64 * MIB, 256), (512 * MIB, 1_024), (10 * 1024 * MIB, 20_480)] {
        assert_eq!(connections_within(limit), expected, "of {limit}");
    }
    let within = connections_within(memory_limit());
    let default = load(&Source::default()).unwrap().server.connections_max;
    assert_eq!(default.get(), within.min(20_000));
    let config = load(&env("DULY_SERVER__CONNECTIONS_MAX", "300000")).unwrap();
    assert_eq!(config.server.connections_max.get(), 300_000, "a number that was set is taken");
}

#[test]
fn lease_calls_that_wait_leave_connections_for_others() {
    let defaults = load(&Source::default()).unwrap();
    let (server, delivery) = (&defaults.server, &defaults.delivery);
    assert!(server.connections_max.get() > delivery.pull_waiters_max.get());
    for (connections, waiters) in [("13334", 10_000), ("100", 75), ("2", 1), ("1", 1)] {
        let config = load(&env("DULY_SERVER__CONNECTIONS_MAX", connections)).unwrap();
        assert_eq!(config.delivery.pull_waiters_max.get(), waiters, "{connections}");
        let shown = format!("pull_waiters_max = {waiters} # default");
        assert!(config.show().contains(&shown), "{}", config.show());
    }
}

#[test]
fn a_later_place_wins_and_is_named() {
    let (_keep, mut source) = file("# ours\n[server]\nlisten = \"127.0.0.1:1\"\n");
    let config = load(&source).unwrap();
    assert_eq!(config.server.listen.0[0].to_string(), "127.0.0.1:1");
    assert!(config.origin("server.listen").to_string().ends_with("duly.toml:3"));

    source.env = vec![("DULY_SERVER__LISTEN".into(), "127.0.0.1:2".into())];
    let config = load(&source).unwrap();
    assert_eq!(config.server.listen.0[0].to_string(), "127.0.0.1:2");
    assert_eq!(config.origin("server.listen"), Origin::Variable("DULY_SERVER__LISTEN".into()));

    source.flags = vec![flag("[::1]:3")];
    let config = load(&source).unwrap();
    assert_eq!(config.server.listen.0[0].to_string(), "[::1]:3");
    assert_eq!(config.origin("server.listen"), Origin::Flag("--listen".into()));
}

#[test]
fn every_key_can_be_set_in_the_file_and_in_the_environment() {
    for key in &*KEYS {
        let text = key.toml(&key.default);
        let (_keep, source) = file(&format!("[{}]\n{} = {text}\n", key.section, key.field));
        let config = load(&source).unwrap();
        assert_ne!(config.origin(&key.name), Origin::Default, "{}", key.name);
        let config = load(&env(&key.variable(), &key.default_text())).unwrap();
        assert_eq!(config.origin(&key.name), Origin::Variable(key.variable()));
    }
}

/// Returns the only error.
#[track_caller]
fn refused(source: &Source) -> Error {
    let errors = load(source).unwrap_err();
    let all: Vec<_> = errors.iter().cloned().collect();
    assert_eq!(all.len(), 1, "{errors}");
    all.into_iter().next().unwrap()
}

#[test]
fn each_key_of_the_store_names_its_kind_of_store() {
    for key in &*KEYS {
        let has_kind = key.section == "store" && key.name != key!(store.url);
        assert_eq!(key.store.is_some(), has_kind, "{}", key.name);
    }
    // The URL is between them, as its documentation says.
    let kinds: Vec<_> =
        KEYS.iter().filter(|key| key.section == "store").map(|it| it.store).collect();
    let url = kinds.iter().position(Option::is_none).unwrap();
    assert!(kinds[..url].iter().all(|kind| *kind == Some(StoreKind::Embedded)), "{kinds:?}");
    assert!(kinds[url + 1..].iter().all(|kind| *kind == Some(StoreKind::Shared)), "{kinds:?}");
}

#[test]
fn a_value_is_read_in_each_of_its_forms() {
    let value = |entry: &str, key: &str| {
        let (section, entry) = entry.split_once('.').unwrap();
        let config = load(&file(&format!("[{section}]\n{entry}\n")).1).unwrap();
        config.effective().find(|(known, _)| known.name == key).unwrap().1.value
    };
    for (key, forms, expected) in [
        (key!(server.connections_max), &["7", "0x7", "\" 7 \""][..], serde_json::json!(7)),
        (
            key!(server.body_bytes_max),
            &["65536", "\"65536\"", "\"64KiB\"", "\" 64 KiB\""],
            65_536.into(),
        ),
        (key!(drain.timeout), &["90000", "\"90000\"", "\"90s\"", "\" 1m30s\""], "1m30s".into()),
        (key!(store.on_disk), &["false", "\" false \""], false.into()),
        (key!(store.index_memory_max), &["\"auto\"", "\" auto\""], "auto".into()),
        (key!(store.on_clock_jump), &["\"hold\"", "\" hold \""], "hold".into()),
        (key!(webhook.allow_ports), &["443", "\"443\"", "[\"443\"]"], ["443"].as_slice().into()),
        (key!(store.deployment), &["\"\""], "".into()),
    ] {
        for form in forms {
            assert_eq!(value(&format!("{key} = {form}"), key), expected, "{key} = {form}");
        }
    }
    for entry in ["[server]\nallowed_hosts = -1", "[server]\nadmin_listen = \" \""] {
        refused(&file(entry).1);
    }
}

#[test]
fn shown_configuration_can_be_loaded_again() {
    let mut source = env("DULY_DELIVERY__ALLOW_NETWORKS", "10.0.0.0/8, fd00::/8");
    source.env.push(("DULY_WEBHOOK__ALLOW_PORTS".into(), "443,8000-8999".into()));
    source.env.push(("DULY_WEBHOOK__PROXY".into(), "http://[fd00::1]:3128".into()));
    source.flags = vec![flag("127.0.0.2:0")];
    let config = load(&source).unwrap();
    let shown = config.show();
    assert!(shown.contains("listen = [\"127.0.0.2:0\"] # flag --listen"), "{shown}");
    let (_keep, again) = file(&shown);
    let again = load(&again).unwrap();
    assert_eq!(again.server, config.server);
    assert_eq!(again.store, config.store);
    assert_eq!(again.delivery, config.delivery);
    assert_eq!(config.webhook.allow_ports, [PortRange(443..=443), PortRange(8000..=8999)]);
    assert_eq!(again.webhook, config.webhook);
    assert_eq!(again.log, config.log);
}

#[test]
fn variables_without_the_mark_are_none_of_ours() {
    for name in ["DULY_SERVER", "DULY_API_KEY", "OTHER__LISTEN"] {
        assert!(load(&env(name, "x")).is_ok(), "{name}");
    }
}

#[test]
fn a_key_stands_under_its_unit_and_bounds_in_the_reference() {
    let page = reference_markdown();
    for key in &*KEYS {
        let default = key.default_text();
        let entry = page.split(&format!("### `{}`\n", key.name)).nth(1).unwrap();
        let entry = entry.split("\n### ").next().unwrap();
        for part in [&key.doc, &key.allowed, &key.variable(), &default] {
            assert!(entry.contains(part), "{}: {part}", key.name);
        }
        let counts = !matches!(
            default.as_bytes().first(),
            Some(digit) if digit.is_ascii_digit()
        );
        let has_no_unit = ["server.listen", "tls.min_version"].contains(&&*key.name);
        assert!(counts || has_no_unit || entry.contains("- Unit: "), "{}", key.name);
    }
}

#[test]
fn invalid_values_are_reported_with_place_and_allowed_values() {
    let check = |line: &str, key: &str, seen: &str, allowed: &str| {
        let (section, entry) = line.split_once('.').unwrap();
        let (_keep, source) = file(&format!("[{section}]\n{entry}\n"));
        match refused(&source) {
            Error::Value { key: at, origin, seen: value, allowed: can } => {
                assert_eq!((at, value.as_str()), (key, seen), "{line}");
                assert!(can.contains(allowed), "{line}: {can}");
                assert!(origin.to_string().ends_with(":2"), "{line}: {origin}");
            }
            other => panic!("{line}: {other}"),
        }
    };
    let listen = "server.listen";
    check("server.listen = \"0.0.0.0:3859\"", listen, "\"0.0.0.0:3859\"", "auth.external = true");
    check("server.listen = \"localhost\"", listen, "\"localhost\"", "addresses with a port");
    check("server.listen = 3859", listen, "3859", "addresses with a port");
    check("server.connections_max = 0", "server.connections_max", "0", "from 1 to 1000000");
    check("server.connections_max = 1.5", "server.connections_max", "a float", "an integer");
    check(
        "server.connections_max = 99999999999999999999",
        "server.connections_max",
        "an integer that is too large",
        "1000000 (connections)",
    );
    check("server.listen = { port = 1 }", listen, "a table", "files of Unix sockets");
    check("server.listen = []", listen, "\"\"", "a list of addresses");
    check(
        "server.body_bytes_max = \"32MB\"",
        "server.body_bytes_max",
        "\"32MB\"",
        "from 1KiB to 256MiB",
    );
    check("server.body_bytes_max = -1", "server.body_bytes_max", "-1", "from 1KiB to 256MiB");
    check(
        "server.request_timeout = \"1 s\"",
        "server.request_timeout",
        "\"1 s\"",
        "from 100ms to 10m",
    );
    check(
        "server.allowed_hosts = [1]",
        "server.allowed_hosts",
        "an array of values that are not texts",
        "a list of host names",
    );
    check(
        "server.allowed_hosts = [\"a\", \"duly.example.com:443\"]",
        "server.allowed_hosts",
        "\"a, duly.example.com:443\"",
        "without scheme and port",
    );
    check(
        "server.allowed_origins = [\"example.com\"]",
        "server.allowed_origins",
        "\"example.com\"",
        "such as https://console.example.com",
    );
    check("store.segment_bytes = 65537", "store.segment_bytes", "65537", "multiple of 4096");
    check("store.data = \"\"", "store.data", "\"\"", "a path");
    check("store.min_free_percent = 91", "store.min_free_percent", "91", "from 0 to 90");
    check(
        "delivery.allow_loopback = \"yes\"",
        "delivery.allow_loopback",
        "\"yes\"",
        "auto, always, never",
    );
    check(
        "delivery.allow_networks = [\"10.0.0.0\"]",
        "delivery.allow_networks",
        "\"10.0.0.0\"",
        "10.1.0.0/16",
    );
    check(
        "defaults.implicit_namespaces = \"on\"",
        "defaults.implicit_namespaces",
        "\"on\"",
        "true or false",
    );
    for bad in ["[\"0\"]", "[\"9-8\"]", "70000", "\"http\""] {
        let seen = bad.trim_matches(['[', ']']);
        check(&format!("webhook.allow_ports = {bad}"), "webhook.allow_ports", seen, "8000-8999");
    }
    // A text that may hold a password is not shown.
    for proxy in ["http://user:pass@proxy.example:3128", "https://proxy.example", "proxy:3128"] {
        check(
            &format!("webhook.proxy = \"{proxy}\""),
            "webhook.proxy",
            "another value (not shown: it may hold a password)",
            "webhook.proxy_credentials_file",
        );
    }
    for (key, other) in [
        ("webhook.client_certificate_file", "webhook.client_key_file"),
        ("webhook.client_key_file", "webhook.client_certificate_file"),
        ("webhook.proxy_credentials_file", "webhook.proxy"),
    ] {
        check(&format!("{key} = \"/a/file\""), key, "a file", other);
    }
    let namespaces = "webhook.client_certificate_namespaces";
    check(&format!("{namespaces} = [\"a\"]"), namespaces, "a list", "client_certificate_file");
    check(&format!("{namespaces} = [\"a*b\"]"), namespaces, "\"a*b\"", "beginnings of names");
    check("webhook.ca_file = \"ca.pem\"", "webhook.ca_file", "\"ca.pem\"", "an absolute path");
    check("log.format = \"xml\"", "log.format", "\"xml\"", "text, json");
    check("log.level = \"\"", "log.level", "\"\"", "a level");
    check("drain.timeout = \"11m\"", "drain.timeout", "\"11m\"", "from 0s to 10m");
}

#[test]
fn the_reference_page_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/config.md");
    let page = reference_markdown();
    if std::env::var_os("DULY_REGENERATE").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == page,
        "docs/reference/config.md is stale: run the test again with DULY_REGENERATE=1"
    );
}
