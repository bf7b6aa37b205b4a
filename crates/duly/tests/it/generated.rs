//! `duly completions` and `man`: the generated output covers every command, and a shell accepts it.

use std::{collections::BTreeSet, fs};

use crate::harness::{Server, program, run, text};

/// Returns the subcommands in the help of a command.
fn commands(path: &[&str]) -> Vec<String> {
    let help = run(&[path, &["--help"]].concat()).ok();
    // The commands of the binary itself are in groups.
    let listed = match path {
        [] => help.split("Options of every command:").next(),
        _ => help.split("Commands:\n").nth(1),
    };
    let listed = listed.unwrap_or("").lines();
    let listed = listed.take_while(|line| path.is_empty() || line.starts_with("  "));
    let names = listed.filter_map(|line| {
        let name = line.strip_prefix("  ").filter(|rest| !rest.starts_with(' '))?;
        name.split_whitespace().next()
    });
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

/// Collects the pages of a command and of its subcommands.
fn expected(path: &[&str], pages: &mut BTreeSet<String>) {
    pages.insert(format!(
        "duly{}.1",
        path.iter().map(|name| format!("-{name}")).collect::<String>()
    ));
    for name in commands(path) {
        expected(&[path, &[name.as_str()]].concat(), pages);
    }
}

#[test]
fn there_is_a_manual_page_for_each_command() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let pages = directory.path().join("share/man1");
    let said = run(&["man", "--dir", text(&pages)]).ok();
    assert!(said.contains(text(&pages)), "{said}");
    let written = pages.read_dir().expect("readable");
    let written: BTreeSet<_> = written
        .map(|file| file.expect("a file").file_name().into_string().expect("UTF-8"))
        .collect();
    let mut all = BTreeSet::new();
    expected(&[], &mut all);
    assert_eq!(written, all);
    assert!(all.contains("duly-namespace-secret-set.1"), "{all:?}");
    for page in &written {
        let text = fs::read_to_string(pages.join(page)).expect("UTF-8");
        let name = page.trim_end_matches(".1");
        assert!(text.is_ascii(), "{page}");
        for part in [".TH", ".SH NAME", ".SH SYNOPSIS", "EXIT STATUS", name] {
            assert!(text.contains(part), "{page} lacks {part}");
        }
    }
    let page = fs::read_to_string(pages.join("duly-schedule.1")).expect("UTF-8");
    for part in ["if\\-exists", "retry\\-delays", "replace", "DULY_SERVER"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let file = directory.path().join("file");
    fs::write(&file, "").expect("written");
    let message = run(&["man", "--dir", text(&file)]).refused(1);
    assert!(message.contains(text(&file)) && message.contains("--dir"), "{message}");
}

#[test]
fn every_shell_gets_a_script_that_asks_this_program() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = run(&["completions", shell]).ok();
        assert!(script.contains("COMPLETE") && script.contains("duly"), "{shell}: {script}");
    }
    let message = run(&["completions", "cmd"]).refused(2);
    assert!(message.contains("powershell"), "{message}");
}

/// Returns what bash offers for this line, with the cursor behind its last word.
fn offered(words: &[&str], server: &str) -> Vec<String> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let script = directory.path().join("completions.bash");
    std::fs::write(&script, run(&["completions", "bash"]).ok()).expect("written");
    let line: Vec<_> = words.iter().map(|word| format!("'{word}'")).collect();
    let typed = format!(
        "source '{}'\nCOMP_TYPE=9\nCOMP_WORDS=({})\nCOMP_CWORD={}\n_clap_complete_duly duly {}\n\
         printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        text(&script),
        line.join(" "),
        words.len() - 1,
        line.last().expect("words"),
    );
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_duly"));
    let path = std::env::var("PATH").expect("a path");
    let output = program("bash")
        .args(["--norc", "-c", &typed])
        .env("PATH", format!("{}:{path}", text(binary.parent().expect("a directory"))))
        .env("DULY_SERVER", server)
        .output()
        .expect("bash runs");
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    let offered = String::from_utf8_lossy(&output.stdout);
    offered.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect()
}

#[test]
fn bash_completes_commands_options_values_and_namespaces() {
    let server = Server::start();
    for name in ["orders", "orders-eu", "billing"] {
        server.run(&["namespace", "put", name]).ok();
    }
    for (words, expected) in [
        (vec!["duly", "sch"], &["schedule"][..]),
        (vec!["duly", "namespace", "fore"], &["forecast"]),
        (vec!["duly", "schedule", "--if-"], &["--if-exists"]),
        (vec!["duly", "schedule", "--if-exists", "rep"], &["replace"]),
        (vec!["duly", "list", "--state", "in"], &["in_flight"]),
        (vec!["duly", "dead", "purge", "--ye"], &["--yes"]),
        (vec!["duly", "get", "ord"], &["orders", "orders-eu"]),
        (vec!["duly", "namespace", "pause", "bil"], &["billing"]),
    ] {
        assert_eq!(offered(&words, &server.url), expected, "{words:?}");
    }
    let commands = offered(&["duly", ""], &server.url);
    assert!(commands.contains(&"health".to_owned()), "{commands:?}");
    assert!(!commands.iter().any(|name| name.contains("__")), "{commands:?}");
    // Without a server a name is not completed, at once.
    assert!(offered(&["duly", "get", "ord"], "http://127.0.0.1:9").is_empty());
}
