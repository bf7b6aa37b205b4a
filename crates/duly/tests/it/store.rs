//! store check.

use rustix::process::Signal;

use crate::harness::{Server, run, text};

#[test]
fn a_directory_is_checked_when_no_server_has_it_open() {
    let mut server = Server::start();
    server.run(&["schedule", "n", "x", "--in", "1h"]).ok();
    let data = server.data();
    let message = run(&["store", "check", "--data", text(&data)]).refused(1);
    assert!(message.contains(text(&data)), "{message}");
    server.process.signal(Signal::TERM);
    assert!(server.process.ended().0.success());
    let report = run(&["store", "check", "--data", text(&data)]).ok();
    assert!(report.contains("clean"), "{report}");
}

#[test]
fn what_is_no_data_directory_is_said_to_be_none() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    for path in [directory.path().join("missing"), directory.path().to_owned()] {
        let message = run(&["store", "check", "--data", text(&path)]).refused(1);
        assert!(message.contains(text(directory.path())), "{message}");
    }
    assert_eq!(directory.path().read_dir().expect("readable").count(), 0, "nothing touched");
}
