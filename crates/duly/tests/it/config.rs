//! `duly config`: `check`, `show`, `example`.

use std::fs;

use serde_json::{Value, json};

use crate::harness::{Ran, duly, run, text};

#[test]
fn a_configuration_is_checked_and_shown() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("duly.toml");
    fs::write(&file, "[log]\nformat = \"json\"\n").expect("written");
    let config = ["--config", text(&file)];
    let verdict = run(&["config", "check", config[0], config[1], "--data", "/srv/d"]).ok();
    let counts = format!("1 from {}, 0 from the environment, 1 from flags", text(&file));
    assert!(verdict.contains("is valid") && verdict.contains(&counts), "{verdict}");
    let shown = run(&["config", "show", config[0], config[1], "--listen", "[::1]:1"]).ok();
    for line in [
        "listen = [\"[::1]:1\"] # flag --listen".to_owned(),
        format!("format = \"json\" # {}:2", text(&file)),
        "data = \"./duly-data\" # default".to_owned(),
    ] {
        assert!(shown.contains(&line), "{line}: {shown}");
    }
    let verdict = run(&["config", "check"]).ok();
    assert!(verdict.contains("no file was named (--config)"), "{verdict}");
}

#[test]
fn programs_get_a_configuration_as_documents() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("duly.toml");
    let written = "[log]\nformat = \"json\"\n[webhook]\nallow_ports = [\"80\", \"8000-8999\"]\n";
    fs::write(&file, written).expect("written");
    let json = |args: &[&str]| {
        let places = ["--config", text(&file), "--listen", "[::1]:1", "--output", "json"];
        let mut command = duly();
        command.args([args, &places].concat()).env("DULY_STORE__MIN_FREE_BYTES", "2GiB");
        Ran::from(command.output().expect("duly starts")).json()
    };
    let checked = json(&["config", "check"]);
    let defaults = checked["defaults"].as_u64().expect("a number");
    assert_eq!(
        checked,
        json!({
            "is_right": true,
            "file": text(&file),
            "from_file": 2,
            "from_environment": 2,
            "from_flags": 1,
            "defaults": defaults,
        })
    );

    let shown = json(&["config", "show"]);
    let keys = shown["keys"].as_array().expect("a list");
    assert_eq!(keys.len() as u64, defaults + 5, "{shown}");
    let from_file = |line: u64| json!({ "kind": "file", "file": text(&file), "line": line });
    for (key, value, origin) in [
        ("server.listen", json!(["[::1]:1"]), json!({ "kind": "flag", "flag": "--listen" })),
        (
            "store.min_free_bytes",
            json!(2_u64 << 30),
            json!({ "kind": "environment", "variable": "DULY_STORE__MIN_FREE_BYTES" }),
        ),
        ("log.format", json!("json"), from_file(2)),
        ("webhook.allow_ports", json!(["80", "8000-8999"]), from_file(4)),
        ("drain.timeout", json!("25s"), json!({ "kind": "default" })),
    ] {
        let expected = json!({ "key": key, "value": value, "origin": origin });
        assert!(keys.contains(&expected), "{expected}: {shown}");
    }
    let lines = run(&["config", "show", "--output", "ndjson"]).ok();
    assert_eq!(lines.lines().count(), keys.len(), "a line for each key: {lines}");

    let example = run(&["config", "example", "--output", "json"]).json();
    assert_eq!(example, json!({ "toml": run(&["config", "example"]).ok() }));
    let refused = run(&["config", "check", "--listen", "0.0.0.0:1", "--output", "json"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    let problem: Value = serde_json::from_str(&refused.stderr).expect("a document");
    assert_eq!(problem["code"], "failed", "{problem}");
}

#[test]
fn all_mistakes_of_a_configuration_are_one_message() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("duly.toml");
    fs::write(&file, "nonsense = 1\n[server]\nconections_max = 1\n").expect("written");
    for action in ["check", "show"] {
        let args = ["config", action, "--config", text(&file), "--listen", "0.0.0.0:1"];
        let message = run(&args).refused(1);
        for part in [
            "3 errors in the configuration:",
            &format!("{}:1: there is no key nonsense", text(&file)),
            &format!("{}:3: there is no key server.conections_max", text(&file)),
            "did you mean server.connections_max?",
            "server.listen (flag --listen) must be a loopback address",
        ] {
            assert!(message.contains(part), "{part}: {message}");
        }
    }
}

#[test]
fn files_of_a_configuration_are_checked() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("duly.toml");
    let authorities = directory.path().join("ca.pem");
    fs::write(&file, format!("[webhook]\nca_file = \"{}\"\n", text(&authorities)))
        .expect("written");
    let place = format!("webhook.ca_file ({}:2) must be a file in PEM", text(&file));
    let message = run(&["config", "check", "--config", text(&file)]).refused(1);
    assert!(message.contains(&place) && message.contains(text(&authorities)), "{message}");
    fs::write(&authorities, "no certificate").expect("written");
    let message = run(&["config", "check", "--config", text(&file)]).refused(1);
    assert!(message.contains(&place) && message.contains("no certificate in it"), "{message}");
    run(&["config", "show", "--config", text(&file)]).ok();
}

#[test]
fn file_mistakes_are_reported_with_all_others() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("duly.toml");
    let (other, none) = (directory.path().join("other"), directory.path().join("none"));
    let secret = "hunter2 without a colon";
    fs::write(&other, secret).expect("written");
    let [file_text, other, none] = [text(&file), text(&other), text(&none)];
    let lines = [
        "[store]".to_owned(),
        format!("data = \"{other}\""),
        format!("backup_dir = \"{file_text}/below\""),
        "[webhook]".to_owned(),
        format!("ca_file = \"{none}\""),
        format!("client_certificate_file = \"{other}\""),
        format!("client_key_file = \"{other}\"\nclient_certificate_namespaces = [\"*\"]"),
        "proxy = \"http://proxy.example:3128\"".to_owned(),
        format!("proxy_credentials_file = \"{other}\""),
        "[server]".to_owned(),
        "allowed_hosts = [\"duly.example.com:443\"]".to_owned(),
        "[audit]".to_owned(),
        format!("file = \"{none}/audit.log\""),
    ];
    fs::write(&file, lines.join("\n")).expect("written");
    for command in [&["config", "check"][..], &["serve"]] {
        let args = [command, &["--config", file_text, "--listen", "127.0.0.1:0"]].concat();
        let message = run(&args).refused(1);
        for part in [
            "7 errors in the configuration:".to_owned(),
            format!("server.allowed_hosts ({file_text}:12) must be a list of host names"),
            format!(
                "store.data ({file_text}:2) must be a directory, or a path where one can be made; got {other} (a file)"
            ),
            format!(
                "store.backup_dir ({file_text}:3) must be a directory, or a path where one can be made; got {file_text}/below ({file_text} is a file)"
            ),
            format!(
                "webhook.ca_file ({file_text}:5) must be a file in PEM that can be used; got {none} ("
            ),
            format!("webhook.client_certificate_file ({file_text}:6) must be a file in PEM"),
            format!(
                "webhook.proxy_credentials_file ({file_text}:10) must be a file that holds one line"
            ),
            format!(
                "audit.file ({file_text}:14) must be a file in a directory that exists; got {none}/audit.log (its directory does not exist)"
            ),
        ] {
            assert!(message.contains(&part), "{part}: {message}");
        }
        assert!(!message.contains("hunter2"), "{message}");
    }
}

#[test]
fn the_example_is_a_configuration_that_changes_nothing() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("duly.toml");
    let example = run(&["config", "example"]).ok();
    fs::write(&file, &example).expect("written");
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/duly.toml");
    assert_eq!(fs::read_to_string(path).expect("docs/reference/duly.toml is committed"), example);
    let verdict = run(&["config", "check", "--config", text(&file)]).ok();
    assert!(verdict.contains("0 from "), "{verdict}");
}

fn page(name: &str) -> String {
    let path = format!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operate/{}"), name);
    fs::read_to_string(path).expect("it is committed")
}

#[test]
fn every_configuration_in_the_pages_of_the_operator_is_right() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("duly.toml");
    let mut checked = 0;
    for name in ["install.md", "backup.md", "sizing.md", "upgrade.md", "troubleshooting.md"] {
        for block in page(name).split("```toml\n").skip(1) {
            let configuration = block.split("```").next().expect("a first part");
            fs::write(&file, configuration).expect("written");
            run(&["config", "check", "--config", text(&file)]).ok();
            checked += 1;
        }
    }
    assert!(checked >= 2, "{checked}");
}

#[test]
fn systemd_unit_is_valid_and_waits_for_a_drain() {
    let unit = page("../../deploy/package/duly.service");
    let value = |key: &str| {
        let line = unit.lines().find_map(|line| line.strip_prefix(key));
        line.unwrap_or_else(|| panic!("no {key}")).to_owned()
    };
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("duly.toml");
    fs::write(&file, "").expect("written");
    for key in ["ExecStartPre=", "ExecStart="] {
        let command = value(key).replace("/etc/duly/duly.toml", text(&file));
        let mut args: Vec<_> = command.split(' ').skip(1).collect();
        if key == "ExecStart=" {
            // It need not run: it is enough that the arguments are parsed.
            args.push("--help");
        }
        run(&args).ok();
    }
    // Exit code 74 of a store that has ended, and every other failure, is followed by a start, without a limit.
    for line in ["StartLimitIntervalSec=0", "Restart=on-failure", "RestartSec=5", "Type=notify"] {
        assert!(unit.lines().any(|known| known == line), "{line}");
    }
    let stop_s: u64 = value("TimeoutStopSec=").parse().expect("seconds");
    let shown = run(&["config", "show"]).ok();
    assert!(shown.contains("timeout = \"25s\"") && stop_s > 2 * 25, "{stop_s}: {shown}");
}
