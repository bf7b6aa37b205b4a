//! Types in the README and the pages of the guide. Every command of their `console` blocks runs in one
//! shell beside a server, and must print what the page shows.
//!
//! 1. Times, time spans, ids and tokens are removed from the shown and the printed text before the
//!    comparison.
//! 2. `…` in a page stands for any text; on a line of its own, for any lines.
//! 3. A `sleep` is for people: the commands after it in its block are repeated until they print the
//!    shown text.
//! 4. `duly serve` and `duly receive` run in terminals of their own, until a line of the page tells the
//!    reader to press Ctrl-C there.
//!
//! After a change of a page or of the output, this command writes the differing output into the pages.
//! Read and shorten it:
//!
//! ```text
//! DULY_GUIDE=write cargo test -p duly --test it pages
//! ```

mod page;
mod plain;
mod shell;
mod terminals;

use std::{fs, path::PathBuf, time::Instant};

use page::{Part, Step};
use shell::Shell;
use terminals::{Place, Terminals};

use crate::{harness::DEADLINE, tools};

fn path_of(page: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(page)
}

/// Types in pages, one after the other, without clearing anything between them.
fn type_in(pages: &[&str], tools: &[&str]) {
    if !tools::are_there(pages[0], &[&["bash", "python3", "curl"], tools].concat()) {
        return;
    }
    let place = Place::new();
    let mut terminals = Terminals::new(&place);
    // The pages expect this server, and the README begins with it.
    terminals.serve();
    let mut shell = Shell::start(&place);
    for page in pages {
        type_page(page, &mut shell, &mut terminals);
    }
}

fn type_page(page: &str, shell: &mut Shell, terminals: &mut Terminals<'_>) {
    let writes = std::env::var("DULY_GUIDE").is_ok_and(|value| value == "write");
    let text = fs::read_to_string(path_of(page)).expect("the page is there");
    let mut parts = page::parts(&text);
    let mut typed = 0;
    for part in &mut parts {
        let steps = match part {
            Part::Console(steps) => steps,
            Part::Line(line) => {
                terminals.interrupt(line);
                continue;
            }
        };
        let mut is_after_sleep = false;
        for step in steps {
            if step.command.starts_with("sleep ") && !writes {
                is_after_sleep = true;
                continue;
            }
            typed += 1;
            let compared = if terminals.start(&step.command) {
                terminals.compare(step)
            } else if writes {
                let printed = shell.run(&step.command);
                if !plain::is_as_shown(&step.shown, &printed) {
                    step.shown = printed;
                }
                Ok(())
            } else {
                compare(shell, step, is_after_sleep)
            };
            if let Err(printed) = compared {
                panic!(
                    "{page}:{}: $ {}\nprints\n{}\nand the page shows\n{}",
                    step.line,
                    step.command,
                    printed.join("\n"),
                    step.shown.join("\n")
                );
            }
        }
    }
    assert!(typed > 3, "{page} has commands");
    if writes {
        fs::write(path_of(page), page::text(&parts)).expect("the page can be written");
    }
}

/// Runs a command until it prints the shown text; runs it once if there is nothing to wait for.
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
    type_in(&["docs/guide/order-time-out.md"], &[]);
}

#[test]
fn the_page_on_reminders_can_be_typed_in() {
    type_in(&["docs/guide/reminder.md"], &["tzdata"]);
}

#[test]
fn the_page_on_pulling_can_be_typed_in() {
    type_in(&["docs/guide/pull-worker.md"], &[]);
}

#[test]
fn the_page_on_moving_can_be_typed_in() {
    type_in(&["docs/guide/moving.md"], &[]);
}

#[test]
fn the_page_on_webhook_receivers_can_be_typed_in() {
    type_in(&["docs/guide/webhook-receiver.md"], &[]);
}

#[test]
fn the_readme_and_the_pages_can_be_typed_in_one_after_the_other() {
    let pages = [
        "README.md",
        "docs/guide/first-timer.md",
        "docs/guide/order-time-out.md",
        "docs/guide/moving.md",
        "docs/guide/reminder.md",
        "docs/guide/pull-worker.md",
        "docs/guide/webhook-receiver.md",
    ];
    type_in(&pages, &["tzdata"]);
}
