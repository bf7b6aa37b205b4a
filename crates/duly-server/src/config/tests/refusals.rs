//! Mistakes of operators: names, places, types, several mistakes at once, conflicting values.

use std::{fs, os::unix::fs::PermissionsExt};

use super::*;

/// Returns the errors of a file with this text, without the folder of the file.
fn said_of_file(text: &str) -> Vec<String> {
    let (keep, source) = file(text);
    let folder = format!("{}/", keep.path().display());
    said(&source).into_iter().map(|message| message.replace(&folder, "")).collect()
}

fn said(source: &Source) -> Vec<String> {
    let errors = load(source).expect_err("refused");
    errors.iter().map(ToString::to_string).collect()
}

#[track_caller]
fn check_file(text: &str, expected: &str) {
    let said = said_of_file(text);
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].starts_with(expected), "{said:?}");
}

#[track_caller]
fn check_variable(name: &str, value: &str, expected: &str) {
    let said = said(&env(name, value));
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].starts_with(expected), "{said:?}");
}

#[test]
fn a_file_that_every_user_can_write_is_refused() {
    let (keep, source) = file("[server]\nlisten = \"127.0.0.1:0\"");
    load(&source).expect("a private file");
    let path = keep.path().join("duly.toml");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    let said = said(&source);
    assert!(said[0].contains("every user of this machine can write to it"), "{said:?}");
}

#[test]
fn unknown_file_keys_get_a_suggestion() {
    let meant = |key| format!("duly.toml:2: there is no key {key}: did you mean ");
    check_file("[server]\nlisten_ = 1", &(meant("server.listen_") + "server.listen?"));
    check_file("[server]\nLISTEN = 1", &(meant("server.LISTEN") + "server.listen?"));
    check_file(
        "[server]\nallowed-hosts = []",
        &(meant("server.allowed-hosts") + "server.allowed_hosts?"),
    );
    // The key exists in another section.
    check_file("[server]\ndata = \"x\"", &(meant("server.data") + "store.data?"));
    check_file("\nserver.lisen = 1", &(meant("server.lisen") + "server.listen?"));
    for (old, new) in [
        ("[store]\nreplicas_within = \"1s\"", "store.replication_timeout?"),
        ("[drain]\nwithin = \"1s\"", "drain.timeout?"),
        ("[webhook]\nanswer_bytes_max = 1", "webhook.response_bytes_max?"),
    ] {
        let said = said(&file(old).1);
        assert!(said[0].ends_with(&format!("did you mean {new}")), "{said:?}");
    }
    // No known name is similar.
    check_file(
        "[server]\nport = 1",
        "duly.toml:2: there is no key server.port; [server] has server.listen, server.admin_listen, server.allowed_hosts",
    );
}

#[test]
fn unknown_file_sections_get_a_suggestion() {
    check_file(
        "\n[sever]\nport = 1",
        "duly.toml:2: there is no section [sever]: did you mean [server]?",
    );
    check_file(
        "[webhooks]",
        "duly.toml:1: there is no section [webhooks]: did you mean [webhook]?",
    );
    check_file(
        "[kafka]\nbroker = 1",
        "duly.toml:1: there is no section [kafka]; the sections are [server], [auth], [jwt], [audit], [tls], [store]",
    );
    check_file(
        "listen = 1",
        "duly.toml:1: there is no key listen: did you mean server.listen, below [server]?",
    );
    check_file(
        "nonsense = 1",
        "duly.toml:1: there is no key nonsense; every key belongs below its section: [server], ",
    );
    check_file(
        "server = \"127.0.0.1:1\"",
        "duly.toml:1: server is a section and must be a table, [server]; got a string",
    );
    check_file(
        "[[store]]\ndata = \"x\"",
        "duly.toml:1: store is a section and must be a table, [store]; got an array",
    );
}

#[test]
fn unknown_variables_get_a_suggestion() {
    for slip in ["DULY_SERVER__LISTENS", "DULY_SERVER_LISTEN", "DULY_Server__Listen"] {
        let of = format!("environment variable {slip}: there is no key {slip}: ");
        check_variable(slip, "127.0.0.1:1", &(of + "did you mean DULY_SERVER__LISTEN?"));
    }
    check_variable(
        "DULY_KAFKA__BROKERS",
        "x",
        "environment variable DULY_KAFKA__BROKERS: there is no key DULY_KAFKA__BROKERS; \
         `duly config example` names every variable",
    );
    for not_ours in ["DULY_SERVER", "DULY_API_KEY", "DULY_SERVER_PORT", "SERVER__LISTEN"] {
        assert!(load(&env(not_ours, "x")).is_ok(), "{not_ours}");
    }
}

#[test]
fn a_wrong_value_is_named_with_its_line_variable_or_flag() {
    check_file(
        "[server]\nconnections_max = \"many\"",
        "server.connections_max (duly.toml:2) must be an integer from 1 to 1000000 (connections); \
         got \"many\"",
    );
    check_variable(
        "DULY_SERVER__LISTEN",
        "1.2.3.4:5",
        "server.listen (environment variable DULY_SERVER__LISTEN) must be a loopback address",
    );
    check_variable(
        "DULY_STORE__DATA",
        "",
        "store.data (environment variable DULY_STORE__DATA) must be a path; the URL of a store goes into store.url; got \"\"",
    );
    check_variable(
        "DULY_STORE__DATA",
        "/da\u{fffd}ta",
        "store.data (environment variable DULY_STORE__DATA) must be text in UTF-8; got \"/da",
    );
    let source = Source { flags: vec![flag("x")], ..Source::default() };
    let expected = "server.listen (flag --listen) must be a list of addresses with a port";
    assert!(said(&source)[0].starts_with(expected), "{:?}", said(&source));
}

#[test]
fn all_errors_are_reported_at_once_in_order() {
    let (keep, mut source) =
        file("[store]\nmin_free_percent = 91\ndatta = \"x\"\n\n[server]\nlisten = 3859\n[kafka]\n");
    source.env = vec![("DULY_DRAIN__TIMEOUT".into(), "an hour".into())];
    source.env.push(("DULY_DRAIN_TIMEOUT".into(), "1s".into()));
    source.flags = vec![flag("x")];
    let said = said(&source);
    let places = [
        "store.min_free_percent (FILE:2)",
        "FILE:3: there is no key store.datta: did you mean store.data?",
        "server.listen (FILE:6)",
        "FILE:7: there is no section [kafka]",
        "environment variable DULY_DRAIN_TIMEOUT: there is no key",
        "drain.timeout (environment variable DULY_DRAIN__TIMEOUT)",
        "server.listen (flag --listen)",
    ];
    assert_eq!(said.len(), places.len(), "{said:#?}");
    let path = keep.path().join("duly.toml").display().to_string();
    for (said, place) in said.iter().zip(places) {
        assert!(said.starts_with(&place.replace("FILE", &path)), "{said}");
    }
    let all = load(&source).unwrap_err().to_string();
    assert!(all.starts_with("7 errors in the configuration:\n  store.min_free"), "{all}");
    assert_eq!(all.lines().count(), 8, "{all}");
}

#[test]
fn invalid_toml_and_other_errors_are_reported_together() {
    check_file("[server]\nlisten = \n", "duly.toml:2 is not TOML: ");
    let said = said_of_file("[server]\nlisten = 127.0.0.1:1\n");
    assert!(said[0].starts_with("duly.toml:2 is not TOML: "), "{said:?}");
    assert!(said[0].ends_with("(write texts in quotes, lists in brackets)"), "{said:?}");
    check_file("[log]\nlevel = \"info\"\nlevel = \"warn\"\n", "duly.toml:3 is not TOML: ");
    let said = said_of_file("[server\n\n[store]\ndata = \n");
    let lines: Vec<_> =
        said.iter().map(|said| said.split(" is not TOML").next().unwrap()).collect();
    assert_eq!(lines, ["duly.toml:1", "duly.toml:4"], "{said:?}");

    let mut source = env("DULY_LOG__FORMAT", "xml");
    source.file = Some("/nowhere/duly.toml".into());
    let said = self::said(&source);
    assert!(said[0].starts_with("cannot read the configuration file /nowhere/duly.toml: "));
    assert!(said[1].starts_with("log.format (environment variable DULY_LOG__FORMAT)"), "{said:?}");
}

#[test]
fn conflicting_values_are_refused_with_their_origin() {
    check_file(
        "[store]\ndata = \"/srv/duly\"\nbackup_dir = \"/srv/./duly/backups\"",
        "store.backup_dir (duly.toml:3) must be outside of store.data, which is /srv/duly; got \
         \"/srv/./duly/backups\"",
    );
    check_file(
        "[server]\nbody_bytes_max = \"256MiB\"\nrequest_memory_max = \"256MiB\"",
        "server.body_bytes_max (duly.toml:2) must be at most 192MiB, three quarters of \
         server.request_memory_max, which is 256MiB; got 256MiB",
    );
    check_file(
        "[server]\nallowed_hosts = [\"duly.example.com\"]\n[delivery]\nallow_loopback = \"always\"",
        "delivery.allow_loopback (duly.toml:4) must be \"auto\" or \"never\" where \
         server.allowed_hosts is set; for receivers on this machine name their addresses in \
         delivery.allow_networks; got \"always\"",
    );
    check_file(
        "[webhook]\nproxy_resolves = true",
        "webhook.proxy_resolves (duly.toml:2) must be false, or set together with webhook.proxy, \
         which is empty; got true",
    );
    check_file(
        "[delivery]\npull_waiters_max = 15001\n[server]\nconnections_max = 20000",
        "delivery.pull_waiters_max (duly.toml:2) must be at most 15000, three quarters of \
         server.connections_max, which is 20000: calls that wait must leave connections for \
         everything else; got 15001",
    );
    for fine in [
        "[delivery]\npull_waiters_max = 15000\n[server]\nconnections_max = 20000",
        "[delivery]\npull_waiters_max = 20000\n[server]\nconnections_max = 26667",
        "[store]\ndata = \"/srv/duly\"\nbackup_dir = \"/srv/duly-backups\"",
        "[store]\ndata = \"/srv/duly/data\"\nbackup_dir = \"/srv/duly\"",
        "[server]\nrequest_memory_max = \"1MiB\"",
        "[server]\nbody_bytes_max = \"192MiB\"\nrequest_memory_max = \"256MiB\"",
        "[server]\nbody_bytes_max = \"256MiB\"",
        "[webhook]\nproxy = \"http://proxy:1\"\nproxy_resolves = true",
    ] {
        let (_keep, source) = file(fine);
        assert!(load(&source).is_ok(), "{fine}");
    }
    // Across places: the variable is the value that conflicts.
    let (_keep, mut source) = file("[store]\ndata = \"/srv/duly\"");
    source.env = vec![("DULY_STORE__BACKUP_DIR".into(), "/srv/duly/b".into())];
    let place = "store.backup_dir (environment variable DULY_STORE__BACKUP_DIR)";
    assert!(said(&source)[0].starts_with(place));
    // A key with an invalid value causes no second error.
    assert_eq!(said_of_file("[webhook]\nproxy_resolves = true\nproxy = \"x\"").len(), 1);
}

#[test]
fn refused_store_urls_show_the_reason_but_no_password() {
    for (value, parts) in [
        ("http://u:secret@h", &["http://***@h", "begin with redis://"][..]),
        ("redis//u:secret@h", &["redis/***", "begin with redis://"]),
        ("redis://u:secret@h/1", &["database 0"]),
        ("redis://:secret@a,b", &["use redis-cluster://"]),
    ] {
        let said = said(&env("DULY_STORE__URL", value));
        assert_eq!(said.len(), 1, "{said:?}");
        for part in parts {
            assert!(said[0].contains(part), "{value} lacks {part}: {said:?}");
        }
        assert!(!said[0].contains("secret"), "{said:?}");
    }
    check_file("[store]\nurl = 1", "store.url (duly.toml:2) must be redis://host:port");
    let unknown = "store.allow (duly.toml:2) must be a list of some of no_append_only, eviction";
    check_file("[store]\nallow = [\"evicton\"]", unknown);
}

#[test]
fn no_key_shows_the_secret_of_a_url() {
    let mut checked = Vec::new();
    for key in KEYS.iter() {
        for url in [
            "user:hunter2@id.example:1",
            "http://user:hunter2",
            "https://user:hunter2@id.example:8443/keys",
            "https://:hunter2@id.example",
            "https://id.example/keys?token=hunter2",
            "http://user:hunter2@[::1",
            "ftp://id.example?hunter2",
            "rediss://h?hunter2",
            "https://id.example/keys?token=hunter2&user=a@b",
            "https://hunter2@id.example/keys",
            "https://user:a,hunter2,b@id.example",
        ] {
            let variable = format!("DULY_{}__{}", key.section, key.field).to_uppercase();
            let in_file = |value: &str| format!("[{}]\n{} = {value}", key.section, key.field);
            let one = file(&in_file(&format!("{url:?}")));
            let list = file(&in_file(&format!("[{url:?}]")));
            for source in [&env(&variable, url), &one.1, &list.1] {
                let shown = match load(source) {
                    // A path can have every text.
                    Ok(_) if url.starts_with("user:") => String::new(),
                    Ok(config) => format!("{config:?} {}", config.show()),
                    Err(errors) => errors.iter().map(ToString::to_string).collect(),
                };
                assert!(!shown.contains("hunter2"), "{} shows {url}: {shown}", key.name);
            }
        }
        checked.push(key.name.as_str());
    }
    for url in ["store.url", "webhook.proxy", "tracing.otlp_endpoint", "jwt.jwks_url"] {
        assert!(checked.contains(&url), "{url} is not among {checked:?}");
    }
}

#[test]
fn p1_clusters_without_replicas_need_permission() {
    let cluster = "[store]\nurl = \"redis-cluster://h\"\n";
    let wanted = "at least 1 on a Cluster";
    for (more, place) in [
        ("", "store.min_replicas (default)"),
        ("min_replicas = 0", "store.min_replicas (duly.toml:3)"),
        ("allow = [\"no_fsync\"]", "store.min_replicas (default)"),
    ] {
        let said = said_of_file(&format!("{cluster}{more}"));
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].starts_with(place) && said[0].contains(wanted), "{said:?}");
        assert!(said[0].contains("add \"no_replicas\" to store.allow"), "{said:?}");
    }
    for fine in [
        &format!("{cluster}min_replicas = 1"),
        &format!("{cluster}allow = [\"no_replicas\"]"),
        "[store]\nurl = \"redis://h\"",
    ] {
        let (_keep, source) = file(fine);
        assert!(load(&source).is_ok(), "{fine}");
    }
}

#[test]
fn keys_of_the_other_store_kind_are_reported() {
    for (name, value) in [
        ("DULY_STORE__SHARDS", "8"),
        ("DULY_STORE__MIN_REPLICAS", "1"),
        ("DULY_STORE__ON_DISK", "true"),
        ("DULY_STORE__PASSWORD_FILE", "/etc/duly/password"),
        ("DULY_STORE__ALLOW", "no_fsync"),
    ] {
        let said = said(&env(name, value));
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].contains("store.url, which is empty"), "{said:?}");
    }
    let mut source = env("DULY_STORE__URL", "redis://u:secret@h");
    source.env.push(("DULY_STORE__DATA".into(), "/srv/duly".into()));
    let config = load(&source).unwrap();
    let unused = config.unused();
    assert_eq!(unused.len(), 1, "{unused:?}");
    assert!(unused[0].starts_with("store.data (environment variable DULY_STORE__DATA) is ignored"));
    assert!(config.show().contains("url = \"redis://u:***@h\""), "{}", config.show());
    assert!(!format!("{config:?}").contains("secret"));

    source.flags =
        vec![Flag { flag: "--data".into(), key: "store.data", value: "/srv/duly".into() }];
    let refused = said(&source);
    assert!(refused[0].starts_with("store.data (flag --data) must be left out"), "{refused:?}");
    source.flags.clear();
    for (name, value, part) in [
        ("DULY_STORE__PASSWORD_FILE", "/etc/duly/password", "has a password already"),
        ("DULY_STORE__CA_FILE", "/etc/duly/ca.pem", "rediss"),
    ] {
        source.env.push((name.into(), value.into()));
        let said = said(&source);
        assert!(said.len() == 1 && said[0].contains(part), "{said:?}");
        source.env.pop();
    }
}

#[test]
fn means_of_authentication_and_their_settings_come_together() {
    let check = |text: &str, expected: &[&str]| {
        let said = said_of_file(text);
        assert_eq!(said.len(), expected.len(), "{said:?}");
        for (said, expected) in said.iter().zip(expected) {
            assert!(said.contains(expected), "{said:?}");
        }
    };
    let jwt = "[jwt]\nissuer = \"https://id.example\"\naudience = \"duly\"\n";
    let url = "jwks_url = \"https://id.example/keys\"\n";
    check("[auth]\nmode = [\"mtls\"]", &["set together with tls.client_ca_file"]);
    let missing = ["together with jwt.issuer, jwt.audience, jwt.jwks_url"];
    check("[auth]\nmode = [\"jwt\"]", &missing);
    check(&format!("{jwt}{url}"), &["\"jwt\" in auth.mode"; 3]);
    let twice = format!("[auth]\nmode = [\"jwt\"]\n{jwt}{url}jwks_file = \"/keys.json\"");
    check(&twice, &["left out beside jwt.jwks_url"]);
    check("[jwt]\njwks_url = \"http://id.example/keys\"", &["an https:// URL"]);
    check("[jwt]\nalgorithms = [\"HS256\"]", &["RS256, ES256, EdDSA"]);
}

#[test]
fn keys_of_an_issuer_are_judged_by_the_named_algorithms() {
    let (folder, mut source) = file("");
    let keys = folder.path().join("keys.json");
    let point = r#"{"keys":[{"kty":"EC","crv":"P-256","x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4","y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"}]}"#;
    std::fs::write(&keys, point).unwrap();
    for (algorithms, is_taken) in [("[]", true), (r#"["ES256"]"#, true), (r#"["RS256"]"#, false)] {
        let text = format!(
            "[auth]\nmode = [\"jwt\"]\n[jwt]\nissuer = \"https://id.example\"\naudience = \"duly\"\n\
             jwks_file = {keys:?}\nalgorithms = {algorithms}"
        );
        let named = source.file.get_or_insert_default();
        std::fs::write(&*named, text).unwrap();
        let said = match load_with_files(&source) {
            Ok(_) => Vec::new(),
            Err(errors) => errors.iter().map(ToString::to_string).collect(),
        };
        let is_named = said.len() == 1 && said[0].contains("of an allowed algorithm");
        assert!(if is_taken { said.is_empty() } else { is_named }, "{algorithms}: {said:?}");
    }
}

#[test]
fn a_client_certificate_needs_the_namespaces_that_show_it() {
    let files = "client_certificate_file = \"/a.pem\"\nclient_key_file = \"/a.key\"";
    check_file(
        &format!("[webhook]\n{files}"),
        "webhook.client_certificate_file (duly.toml:2) must be left out, or set together with \
         webhook.client_certificate_namespaces, the list of namespaces",
    );
    let named = format!("[webhook]\n{files}\nclient_certificate_namespaces = [\"orders-*\"]");
    load(&file(&named).1).unwrap();
}
