//! `duly completions` and `man`: the generated output covers every command, and a shell accepts it.

use std::{collections::BTreeSet, fs, process::Command};

use crate::harness::{run, text};

/// Returns the subcommands in the help of a command.
fn commands(path: &[&str]) -> Vec<String> {
    let help = run(&[path, &["--help"]].concat()).ok();
    let listed = help.split("Commands:\n").nth(1).unwrap_or("");
    let listed = listed.lines().take_while(|line| line.starts_with("  "));
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
fn every_shells_completions_know_every_command() {
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = run(&["completions", shell]).ok();
        // Some shells do not complete the values of options.
        for part in ["schedule", "namespace", "redrive", "forecast", "if-exists"] {
            assert!(script.contains(part), "{shell} lacks {part}");
        }
        assert!(!script.contains("cli-docs"), "{shell}");
    }
    let message = run(&["completions", "cmd"]).refused(2);
    assert!(message.contains("powershell"), "{message}");
}

/// Returns bash's completions for this line, with the cursor behind its last word.
fn offered(script: &str, words: &[&str]) -> Vec<String> {
    let line: Vec<_> = words.iter().map(|word| format!("'{word}'")).collect();
    let program = format!(
        "{script}\nCOMP_WORDS=({})\nCOMP_CWORD={}\n_duly duly '{}' '{}'\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"",
        line.join(" "),
        words.len() - 1,
        words.last().expect("words"),
        words[words.len() - 2],
    );
    // In a file, since an argument of a program is limited to 128 KiB.
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("completions.bash");
    std::fs::write(&file, program).expect("written");
    let output = Command::new("bash").arg("--norc").arg(&file).output().expect("bash runs");
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_options_and_values() {
    let script = run(&["completions", "bash"]).ok();
    for (words, expected) in [
        (vec!["duly", "sch"], "schedule"),
        (vec!["duly", "namespace", "fore"], "forecast"),
        (vec!["duly", "schedule", "--if-"], "--if-exists"),
        (vec!["duly", "schedule", "--if-exists", "re"], "replace"),
        (vec!["duly", "list", "--state", "in"], "in_flight"),
        (vec!["duly", "dead", "purge", "--ye"], "--yes"),
    ] {
        assert_eq!(offered(&script, &words), [expected], "{words:?}");
    }
    let commands = offered(&script, &["duly", ""]);
    assert!(commands.contains(&"health".to_owned()), "{commands:?}");
    assert!(!commands.iter().any(|name| name.contains("__")), "{commands:?}");
}
