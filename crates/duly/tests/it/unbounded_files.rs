//! Files without an end: a command whose file is a pipe or a device refuses that file, and neither waits nor reads for ever.

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use crate::harness::{Process, duly, run, text};

/// Commands that read a file, the one named `@`. `|` marks those that also take a pipe, which has an end.
const COMMANDS: &[&str] = &[
    "--ca-file @ get n i --server https://localhost:1",
    "--key-file @ get n i",
    "--cert-file @ get n i --server https://localhost:1",
    "serve --config @",
    "schedule n --in 1h --payload-file @",
    "schedule n --in 1h --url http://localhost:1 --url-header x:@@",
    "reschedule n i --payload-file @",
    "| batch n --file @",
    "namespace put n --file @",
    "namespace put n --signing-secret-file @",
    "namespace set n --file @",
    "namespace set n --signing-secret-file @",
    "namespace repair n --config @",
    "namespace secret set n --file @",
    "| import @",
    "receive --secret-file @",
    "key create n --admin --config @",
    "key disable --all --config @",
    "store repair --shard 0 --config @",
    "config check --config @",
    "config show --config @",
];
/// Options whose file is written.
const WRITTEN: [(&str, &str); 2] = [("export", "--to"), ("bench", "--plot")];

/// Settings that the files of a section go with.
const TOGETHER: [(&str, &str, &str); 12] = [
    ("AUTH", "AUTH__MODE", "keys"),
    ("JWT", "AUTH__MODE", "jwt"),
    ("JWT", "JWT__ISSUER", "https://issuer.example"),
    ("JWT", "JWT__AUDIENCE", "duly"),
    ("STORE", "STORE__URL", "rediss://127.0.0.1:1"),
    ("TLS", "AUTH__MODE", "mtls"),
    ("TLS", "TLS__CERTIFICATE_FILE", "@"),
    ("TLS", "TLS__KEY_FILE", "@"),
    ("WEBHOOK", "WEBHOOK__CLIENT_CERTIFICATE_FILE", "@"),
    ("WEBHOOK", "WEBHOOK__CLIENT_KEY_FILE", "@"),
    ("WEBHOOK", "WEBHOOK__CLIENT_CERTIFICATE_NAMESPACES", "n"),
    ("WEBHOOK", "WEBHOOK__PROXY", "http://127.0.0.1:1"),
];

/// Checks that a command ends with a refusal that names the file.
#[track_caller]
fn refuses(mut command: Command, path: &Path) {
    command.env("DULY_SERVER", "http://127.0.0.1:1");
    let said = format!("{command:?}");
    let (status, stderr) = Process::of(command).ended();
    assert!(!status.success(), "{said}: {stderr}");
    let name = text(path);
    assert!(stderr.contains(name), "{said}: {stderr}");
    assert!(["regular file", "MiB", "longer"].iter().any(|why| stderr.contains(why)), "{stderr}");
}

fn pipe_in(folder: &Path) -> std::path::PathBuf {
    let path = folder.join("pipe");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0)
        .expect("a pipe");
    path
}

/// Returns the options with a file of each command, as its help has them.
fn options() -> BTreeSet<(String, String)> {
    let (mut options, mut command) = (BTreeSet::new(), String::new());
    let help = run(&["__cli-docs"]).ok();
    for line in help.lines().map(str::trim) {
        if let Some(usage) = line.strip_prefix("Usage: duly") {
            let words = usage.split_whitespace();
            let words: Vec<_> = words.take_while(|it| !it.starts_with(['[', '<', '-'])).collect();
            command = words.join(" ");
        } else if line.ends_with("<FILE>") || line == "<FILE>" {
            let option = line.trim_end_matches("<FILE>").trim_end().to_owned();
            options.insert((command.clone(), option));
        }
    }
    options
}

#[test]
fn no_command_waits_for_a_file_without_an_end() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = pipe_in(folder.path());
    let mut left = options();
    assert!(left.len() > 15, "{left:?}");
    for (command, option) in WRITTEN {
        assert!(left.remove(&(command.to_owned(), option.to_owned())), "{command} {option}");
    }
    for line in COMMANDS {
        let args = line.trim_start_matches("| ");
        left.retain(|(command, option)| {
            let reads = if option.is_empty() { " @" } else { &*format!("{option} @") };
            !(args.starts_with(command.as_str()) && args.contains(reads))
        });
        let paths = [Path::new("/dev/zero"), &pipe];
        for path in paths.into_iter().take(if *line == args { 2 } else { 1 }) {
            let mut command = duly();
            command.args(args.split(' ').map(|arg| match arg.strip_suffix('@') {
                Some(before) => format!("{before}{}", text(path)),
                None => arg.to_owned(),
            }));
            refuses(command, path);
        }
    }
    assert!(left.is_empty(), "not tested: {left:?}");
}

#[test]
fn no_setting_waits_for_a_file_without_an_end() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = pipe_in(folder.path());
    let (mut section, mut settings) = (String::new(), Vec::new());
    for line in run(&["config", "example"]).ok().lines() {
        if let Some(name) = line.strip_prefix('[') {
            section = name.trim_end_matches(']').to_uppercase();
        } else if let Some(key) = line.trim_start_matches('#').strip_suffix("file = \"\"") {
            settings.push(format!("DULY_{section}__{}FILE", key.to_uppercase()));
        }
    }
    assert!(settings.len() > 10, "{settings:?}");
    for setting in settings {
        let mut command = duly();
        command.args(["config", "check"]).env(&setting, &pipe);
        let with =
            |(section, _, _): &&(&str, &str, &str)| setting.contains(&format!("_{section}__"));
        for (_, key, value) in TOGETHER.iter().filter(with) {
            let value = value.replace('@', text(&pipe));
            command.env(format!("DULY_{}", key), value);
        }
        refuses(command, &pipe);
    }
    for contexts in [Path::new("/dev/zero"), &pipe] {
        let mut command = duly();
        command.args(["context", "list"]).env("DULY_CONTEXTS", contexts);
        refuses(command, contexts);
    }
}

#[test]
fn a_configuration_is_also_read_from_a_stream() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("duly.toml");
    fs::write(&file, "[log]\nlevel = \"debug\"\n").unwrap();
    for path in ["/dev/stdin", "/dev/fd/0", text(&file)] {
        let mut command = duly();
        command.args(["config", "show", "--config", path]);
        command.stdin(fs::File::open(&file).unwrap());
        let ran = crate::harness::Ran::from(command.output().unwrap());
        assert!(ran.ok().contains("debug"), "{path}");
    }
}
