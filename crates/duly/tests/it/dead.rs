//! `duly dead`: `list`, `redrive`, `purge`.

use crate::harness::Server;

/// Creates dead letters with these ids.
fn dead_letters(server: &Server, ids: &[&str]) {
    for id in ids {
        server.run(&["schedule", "n", id, "--in", "0"]).ok();
        let leased = server.json(&["lease", "n", "--wait", "20s"]);
        let token = leased["firings"][0]["token"].as_str().expect("a firing");
        server.run(&["settle", "n", token, "--dead", "--reason", "no such customer"]).ok();
    }
}

#[test]
fn dead_letters_are_listed_redriven_and_purged() {
    let server = Server::start();
    dead_letters(&server, &["a", "b", "c"]);
    let table = server.run(&["dead", "list", "n"]).ok();
    assert!(table.contains("no such customer"), "{table}");
    let listed = server.json(&["dead", "list", "n"]);
    let delivery_id = listed["timers"][0]["delivery_id"].as_str().expect("a delivery id");
    assert_eq!(server.run(&["dead", "redrive", "n", "--id", "b"]).ok(), "1 redriven\n");
    let leased = server.json(&["lease", "n", "--wait", "20s"]);
    assert_eq!(leased["firings"][0]["id"], "b");
    let purged = server.json(&["dead", "purge", "n", "--delivery-id", delivery_id]);
    assert_eq!(purged["purged"], 1);
    let redriven = server.json(&["dead", "redrive", "n", "--all", "--delay", "1h"]);
    assert_eq!(redriven["redriven"], 1);
    assert_eq!(server.run(&["dead", "list", "n"]).ok(), "none\n");
    let purged = server.run(&["dead", "purge", "n", "--all"]).ok();
    assert_eq!(purged, format!("0 purged at {}\n", server.url));
    server.run(&["dead", "purge", "n", "--id", "nobody"]).refused(1);
    dead_letters(&server, &["d"]);
    let removed = server.json(&["forget", "n", "d"]);
    assert_eq!((&removed["tombstones"], &removed["dead_letters"]), (&0.into(), &1.into()));
    assert!(server.run(&["forget", "n", "b"]).refused(1).contains("cancel it"));
    dead_letters(&server, &["d"]);
    for command in ["cancel", "fire"] {
        let message = server.run(&[command, "n", "d"]).refused(1);
        assert!(message.contains("a dead letter") && message.contains("`duly dead redrive`"));
    }
}
