//! The commands that docs/operate/cluster.md and deploy/ give to an operator.

use std::fs;

use duly_redis_testkit::server::{Server, free_port, tell};

use crate::harness::{Process, Server as Node, node, run, text};

fn read(path: &str) -> String {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    fs::read_to_string(format!("{root}/{path}")).expect("it is committed")
}

fn page() -> String {
    read("docs/operate/cluster.md")
}

/// Returns the block of the page that contains these words.
fn block(words: &str) -> String {
    let page = page();
    let found = page.split("```").skip(1).step_by(2).find(|block| block.contains(words));
    let block = found.unwrap_or_else(|| panic!("no block with {words}"));
    block.split_once('\n').expect("a first line").1.to_owned()
}

#[test]
fn the_rights_of_the_page_are_enough() {
    let server = Server::start(&[]);
    let port = server.port();
    let mut line = block("ACL SETUSER").replace("PASSWORD", "secret");
    if tell(port, line.trim()).contains("waitaof") {
        // As the page states for 7.0.
        line = line.replace(" +waitaof", "");
    }
    assert_eq!(tell(port, line.trim()), "+OK");
    let node = Node::on_store(&format!("redis://duly:secret@127.0.0.1:{port}"));
    node.run(&["namespace", "put", "n", "--retention", "1h"]).ok();
    for (id, verdict) in [
        ("acked", &["--ack"][..]),
        ("retried", &["--retry", "--after", "1h"]),
        ("buried", &["--dead", "--reason", "gone"]),
    ] {
        node.run(&["schedule", "n", id, "--in", "500ms", "--payload-text", &"x".repeat(5_000)])
            .ok();
        // Waiting for the firing also proves that the node receives wake-ups.
        let leased = node.json(&["lease", "n", "--wait", "20s"]);
        let token = leased["firings"][0]["token"].as_str().expect("a token").to_owned();
        node.run(&[&["settle", "n", &token][..], verdict].concat()).ok();
    }
    node.run(&["reschedule", "n", "retried", "--in", "2h"]).ok();
    node.run(&["cancel", "n", "retried"]).ok();
    node.run(&["dead", "redrive", "n", "--id", "buried"]).ok();
    node.run(&["list", "n"]).ok();
    node.run(&["namespace", "forecast", "n"]).ok();
    node.run(&["namespace", "pause", "n"]).ok();
    node.run(&["namespace", "delete", "n", "--force", "--yes"]).ok();
    node.run(&["health"]).ok();
    assert_eq!(tell(port, "ACL LOG 1"), "*0", "nothing was refused");
}

/// Starts a server with the settings of the page.
fn with_settings_of_the_page() -> Server {
    let mut args = vec!["--cluster-port".to_owned(), free_port().to_string()];
    let settings = block("cluster-enabled yes");
    for line in settings.lines().filter(|line| !line.starts_with('#')) {
        let (name, value) = line.split_once(' ').expect("a name and a value");
        args.extend([format!("--{name}"), value.trim_matches('"').to_owned()]);
    }
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    Server::start(&args)
}

#[test]
fn documented_redis_settings_raise_no_warning() {
    let (server, replica) = (with_settings_of_the_page(), with_settings_of_the_page());
    assert_eq!(tell(server.port(), "CLUSTER ADDSLOTSRANGE 0 16383"), "+OK");
    let (port, bus) = (replica.port(), replica.bus_port());
    assert_eq!(tell(server.port(), &format!("CLUSTER MEET 127.0.0.1 {port} {bus}")), "+OK");
    let id = tell(server.port(), "CLUSTER MYID");
    while tell(port, &format!("CLUSTER REPLICATE {id}")) != "+OK" {}
    // The node waits until the replica follows.
    let url = format!("redis-cluster://127.0.0.1:{}", server.port());
    let mut command = node(&url);
    command.env("DULY_STORE__MIN_REPLICAS", "1");
    let mut node = Process::of(command);
    node.address();
    node.signal(rustix::process::Signal::TERM);
    let (_, stderr) = node.ended();
    assert!(!stderr.contains("duly_store_redis"), "{stderr}");
}

#[test]
fn the_configuration_of_the_page_is_right() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = |name: &str| text(&directory.path().join(name)).to_owned();
    fs::write(path("redis-password"), "secret\n").expect("written");
    fs::write(path("redis-ca.pem"), "-----BEGIN CERTIFICATE-----\n").expect("written");
    let configuration = block("password_file = ").replace("/etc/duly", text(directory.path()));
    fs::write(path("duly.toml"), configuration).expect("written");
    let checked = run(&["config", "check", "--config", &path("duly.toml")]);
    assert_eq!(checked.stderr, "");
    checked.ok();
}

#[test]
fn compose_file_commands_and_variables_exist() {
    let file = read("deploy/compose.yaml");
    let mut nodes = 0;
    for line in file.lines().filter_map(|line| line.trim().strip_prefix("command: [")) {
        let words: Vec<String> =
            serde_json::from_str(&format!("[{line}")).expect("a list of words");
        run(&words.iter().map(String::as_str).chain(["--help"]).collect::<Vec<_>>()).ok();
        let flags: Vec<_> = words.iter().skip(1).map(String::as_str).collect();
        run(&[&["config", "check"], &flags[..]].concat()).ok();
        nodes += 1;
    }
    assert_eq!(nodes, 3);
    let image = concat!("image: duly:", env!("CARGO_PKG_VERSION"));
    assert!(file.contains(image), "{image}");
    // Redis starts with the settings of its command, and a node prints no warning about them.
    let (_, command) = file.split_once("redis-server ").expect("a command of Redis");
    let command = command.split("volumes:").next().expect("a first part");
    let words: Vec<_> = command.split_whitespace().map(|word| word.trim_matches('"')).collect();
    let at = words.iter().position(|word| *word == "--appendonly").expect("it is set");
    let server = Server::start(&words[at..]);
    let url = server.url();
    let mut node = Process::of(node(&url));
    node.address();
    node.signal(rustix::process::Signal::TERM);
    let (_, stderr) = node.ended();
    assert!(!stderr.contains("duly_store_redis"), "{stderr}");
}
