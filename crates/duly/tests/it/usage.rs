//! Invalid command lines: exit code 2, and a message with the argument and the allowed values.

use crate::harness::{Ran, duly, run};

#[test]
fn invalid_arguments_exit_2_and_name_allowed_values() {
    for (args, parts) in [
        (vec![], vec!["Usage"]),
        (vec!["sing"], vec!["'sing'"]),
        (vec!["schedule", "n"], vec!["--in", "--at"]),
        (vec!["schedule", "n", "--in", "5s", "--at", "1893456000000"], vec!["--in", "--at"]),
        (vec!["schedule", "n", "--in", "5 s"], vec!["'5 s'", "30s"]),
        (vec!["schedule", "n", "--at", "noon"], vec!["'noon'", "RFC 3339"]),
        (vec!["schedule", "n", "--at", "7258118400001"], vec!["2200-01-01"]),
        (vec!["schedule", "n", "--in", "30"], vec!["'30'", "\"30s\" or \"30ms\""]),
        (vec!["lease", "n", "--wait", "60"], vec!["--wait", "\"60s\" or \"60ms\""]),
        (vec!["schedule", "n", "--at", "1893456000"], vec!["1893456000000", "milliseconds"]),
        (vec!["list", "n", "--due-to", "5"], vec!["--due-to", "milliseconds"]),
        (vec!["schedule", "-n", "--in", "5s"], vec!["-n"]),
        (vec!["schedule", "n!", "--in", "5s"], vec!["'n!'", "starting with a letter"]),
        (vec!["schedule", "n", "..", "--in", "5s"], vec!["256 bytes"]),
        (vec!["schedule", "n", "--in", "1s", "--payload", "{a}"], vec!["JSON"]),
        (
            vec!["schedule", "n", "--in", "1s", "--payload", "1", "--payload-text", "x"],
            vec!["--payload-text"],
        ),
        (vec!["schedule", "n", "--in", "1s", "--url", "x", "--pull"], vec!["--pull"]),
        (vec!["schedule", "n", "--in", "1s", "--header", "x"], vec!["name:value"]),
        (vec!["schedule", "n", "--in", "1s", "--if-exists", "merge"], vec!["keep", "replace"]),
        (vec!["get", "n"], vec!["<ID>"]),
        (vec!["list", "n", "--state", "lost"], vec!["in_flight"]),
        (vec!["list", "n", "--limit", "1001"], vec!["from 1 to 1000"]),
        (vec!["reschedule", "n", "i"], vec!["nothing to change"]),
        (vec!["reschedule", "n", "i", "--tag", "x", "--reset", "tags"], vec!["--reset tags"]),
        (vec!["lease", "n", "--max", "0"], vec!["from 1 to 10000"]),
        (vec!["settle", "n", "t"], vec!["--ack", "--retry", "--dead", "--extend"]),
        (vec!["settle", "n", "t", "--dead"], vec!["--reason"]),
        (vec!["settle", "n", "t", "--ack", "--after", "1s"], vec!["--after"]),
        (vec!["dead", "purge", "n"], vec!["--all"]),
        (vec!["dead", "redrive", "n", "--all", "--id", "x"], vec!["--id"]),
        (vec!["namespace", "put", "n", "--file", "x", "--weight", "2"], vec!["--file"]),
        (vec!["receive", "--listen", "4000"], vec!["--listen", "127.0.0.1:3859"]),
        (vec!["serve", "--listen", "localhost:1"], vec!["--listen", "127.0.0.1:3859"]),
        (vec!["--server", "localhost:1", "get", "n", "i"], vec!["http://", "DULY_SERVER"]),
        (vec!["schedule", "n", "--in", "-5s"], vec!["'-5s'", "30s"]),
        (vec!["schedule", "n", "--at", "-1"], vec!["'-1'", "1970-01-01"]),
        (vec!["schedule", "n", "--in", "1s", "--max-attempts", "many"], vec!["whole number"]),
        (vec!["schedule", "n", "--in", "1s", "--jitter", "some"], vec!["0.5"]),
        (vec!["schedule", "n", "--in", "1s", "--url-timeout", "1s"], vec!["--url"]),
        (vec!["shedule", "n"], vec!["'schedule'"]),
        (vec!["list", "n", "--limt", "5"], vec!["'--limit'"]),
        (vec!["namespace", "secret", "set", "n"], vec!["--file"]),
        (vec!["store", "repair"], vec!["--shard", "--keys"]),
        (vec!["store", "repair", "--keys", "undo"], vec!["write-back", "accept"]),
        (vec!["completions"], vec!["<SHELL>"]),
        (vec!["man"], vec!["--dir"]),
        (vec!["schedule", "n", "--in", "1s", "--payload", "hello"], vec!["--payload-text"]),
        (
            vec!["schedule", "n", "--in", "1s", "--payload", "@f.json"],
            vec!["--payload-file f.json"],
        ),
        (vec!["schedule", "n", "--in", "1s", "--payload", "{\"a\": b}"], vec!["single quotes"]),
        (vec!["serve", "--port", "4000"], vec!["'--port'", "--listen 127.0.0.1:PORT"]),
        (vec!["serve", "--log-level", "debug"], vec!["DULY_LOG__LEVEL"]),
        (vec!["serve", "--log-level=debug"], vec!["DULY_LOG__LEVEL"]),
        (vec!["rm", "n", "i"], vec!["'rm'", "duly cancel NAMESPACE ID"]),
        (vec!["run"], vec!["'run'", "duly serve"]),
        (vec!["namespace", "create", "n"], vec!["duly namespace put"]),
        (vec!["get", "n", "i", "--host", "h"], vec!["--server URL"]),
    ] {
        let ran = run(&args);
        assert_eq!(ran.code, Some(2), "{args:?}: {ran:?}");
        for part in parts {
            assert!(ran.stderr.contains(part), "{args:?} lacks {part:?}: {ran:?}");
        }
    }
}

#[test]
fn usage_does_not_show_the_environments_server() {
    for arguments in [&["get", "n"][..], &["schedule", "n", "x"], &["list"]] {
        let mut command = duly();
        command.args(arguments).env("DULY_SERVER", "http://127.0.0.1:1");
        let ran = Ran::from(command.output().expect("duly starts"));
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.stderr.contains("Usage: duly") && !ran.stderr.contains("--server"), "{ran:?}");
    }
    for named in ["localhost:1", "ftp://h", ""] {
        let mut command = duly();
        command.args(["get", "n", "i"]).env("DULY_SERVER", named);
        let message = Ran::from(command.output().expect("duly starts")).refused(2);
        assert!(message.contains("DULY_SERVER") && message.contains("http://"), "{message}");
    }
}

#[test]
fn help_and_version_exit_0() {
    for args in [&["--help"][..], &["-V"], &["help", "schedule"], &["dead", "--help"]] {
        assert!(!run(args).ok().is_empty(), "{args:?}");
    }
}

#[test]
fn a_typed_secret_is_refused_and_not_shown() {
    for args in [
        &["--server", "http://me:hunter2@127.0.0.1:1", "get", "n", "i"][..],
        &["--server", "me:hunter2@127.0.0.1", "get", "n", "i"],
        &["--server", "ftp://hunter2@h", "bench", "ingest"],
        &[
            "schedule",
            "n",
            "--in",
            "1s",
            "--url",
            "http://h",
            "--url-header",
            "authorization: hunter2",
        ],
        &[
            "namespace",
            "put",
            "n",
            "--fallback-url",
            "http://h",
            "--fallback-header",
            "cookie:hunter2",
        ],
    ] {
        for format in ["table", "json"] {
            let ran = run(&[args, &["--output", format]].concat());
            assert_eq!(ran.code, Some(2), "{args:?}: {ran:?}");
            assert!(!ran.stderr.contains("hunter2"), "{args:?}: {ran:?}");
        }
    }
}

#[test]
fn no_option_of_an_address_shows_a_secret() {
    let lines = [
        "serve --listen @",
        "serve --store @",
        "config check --listen @",
        "config check --store @",
        "config show --listen @",
        "config show --store @",
        "receive --listen @",
        "--server @ get n i",
        "key create n --admin --network @",
        "schedule n --in 1h --url @",
        "reschedule n i --url @",
        "namespace put n --url @",
        "namespace put n --fallback-url @",
        "namespace set n --url @",
        "namespace set n --fallback-url @",
        "tenant put t --destination @",
        "tenant set t --destination @",
    ];
    let help = run(&["__cli-docs"]).ok();
    let addresses = ["URL", "ADDRESS", "HOST", "NETWORK"].map(|name| format!("<{name}"));
    for option in help.lines().map(str::trim).filter(|line| line.starts_with("--")) {
        if addresses.iter().any(|name| option.contains(name.as_str())) {
            let name = option.split(' ').next().expect("a word");
            assert!(lines.iter().any(|line| line.contains(&format!("{name} @"))), "{option}");
        }
    }
    let urls = ["http://user:hunter2@host:x", "user:hunter2@host:1", "ftp://h/?key=hunter2"];
    for (line, url) in lines.iter().flat_map(|line| urls.map(|url| (line, url))) {
        let mut args: Vec<_> =
            line.split(' ').map(|word| if word == "@" { url } else { word }).collect();
        if !line.starts_with("--server") {
            args.extend(["--server", "http://127.0.0.1:1"]);
        }
        let ran = run(&args);
        assert!(ran.code.is_some_and(|code| code > 0), "{line}: {ran:?}");
        assert!(!ran.stderr.contains("hunter2"), "{line}: {ran:?}");
    }
}
