//! config check, config show.

use std::fs;

use crate::harness::{run, text};

#[test]
fn a_configuration_is_checked_and_shown() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("duly.toml");
    fs::write(&file, "").expect("written");
    run(&["config", "check", "--config", text(&file)]).ok();
    let shown = run(&["config", "show", "--config", text(&file)]).ok();
    assert!(shown.contains("127.0.0.1:3859"), "{shown}");
    assert!(run(&["config", "show"]).ok().contains("duly-data"));
    fs::write(&file, "nonsense = 1\n").expect("written");
    for action in ["check", "show"] {
        let message = run(&["config", action, "--config", text(&file)]).refused(1);
        assert!(message.contains("nonsense") && message.contains(text(&file)), "{message}");
    }
}
