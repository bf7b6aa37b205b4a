//! The pages of the guide, typed in: every command of their `console` blocks runs in one shell
//! beside a server, and prints what the page shows.
//!
//! Shown and printed text are compared after times, spans, ids and tokens have been taken out of
//! both. `…` in a page stands for any text, on a line of its own for any lines. A `sleep` is for
//! people: what follows it in its block is tried until it prints what is shown.
//!
//! After a change of a page or of what commands print, this writes into the pages what is printed
//! otherwise than shown, to be read and shortened:
//!
//! ```text
//! DULY_GUIDE=write cargo test -p duly --test it pages
//! ```

mod page;
mod plain;
mod shell;

use std::{fs, path::PathBuf, time::Instant};

use page::{Part, Step};
use shell::Shell;

use crate::{
    harness::{DEADLINE, Server},
    tools,
};

/// The ports that the pages name: of the server, and of a receiver.
const PORTS: [&str; 2] = ["3859", "4000"];

fn path_of(page: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide").join(page)
}

/// Types a page in.
fn type_in(page: &str, tools: &[&str]) {
    if !tools::are_there(page, &[&["bash", "python3", "curl"], tools].concat()) {
        return;
    }
    let writes = std::env::var("DULY_GUIDE").is_ok_and(|value| value == "write");
    let text = fs::read_to_string(path_of(page)).expect("the page is there");
    let mut parts = page::parts(&text);
    let server = Server::start();
    let mut shell = Shell::start(&server.url);
    let mut typed = 0;
    for part in &mut parts {
        let Part::Console(steps) = part else { continue };
        let mut is_after_sleep = false;
        for step in steps {
            if step.command.starts_with("sleep ") && !writes {
                is_after_sleep = true;
                continue;
            }
            if writes {
                let printed = shell.run(&step.command);
                if !plain::is_as_shown(&step.shown, &printed) {
                    step.shown = printed;
                }
            } else if let Err(printed) = compare(&mut shell, step, is_after_sleep) {
                panic!(
                    "{page}:{}: $ {}\nprints\n{}\nand the page shows\n{}",
                    step.line,
                    step.command,
                    printed.join("\n"),
                    step.shown.join("\n")
                );
            }
            typed += 1;
        }
    }
    assert!(typed > 5, "{page} has commands");
    if writes {
        fs::write(path_of(page), page::text(&parts)).expect("the page can be written");
    }
}

/// Runs a command until it prints what is shown; once, if nothing has to be waited for.
fn compare(shell: &mut Shell, step: &Step, waits: bool) -> Result<(), Vec<String>> {
    let until = Instant::now() + DEADLINE;
    loop {
        let printed = shell.run(&step.command);
        if plain::is_as_shown(&step.shown, &printed) {
            return Ok(());
        }
        if !waits || Instant::now() > until {
            return Err(printed);
        }
    }
}

#[test]
fn the_page_on_order_time_outs_can_be_typed_in() {
    type_in("order-time-out.md", &[]);
}

#[test]
fn the_page_on_reminders_can_be_typed_in() {
    type_in("reminder.md", &["tzdata"]);
}

#[test]
fn the_page_on_pulling_can_be_typed_in() {
    type_in("pull-worker.md", &[]);
}

#[test]
fn the_page_on_moving_can_be_typed_in() {
    type_in("moving.md", &[]);
}

#[test]
fn the_page_on_webhook_receivers_can_be_typed_in() {
    type_in("webhook-receiver.md", &[]);
}
