//! `duly serve`: start, stop, failures to start, and kill -9.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    os::unix::{
        fs::PermissionsExt as _,
        net::{UnixDatagram, UnixStream},
    },
    path::{Path, PathBuf},
    time::{Instant, SystemTime},
};

use rustix::process::{Pid, Resource, Rlimit, Signal};

use crate::harness::{DEADLINE, Process, Ran, Server, duly, duly_without_umask, run, shell, text};

mod certificates;

#[test]
fn start_report_has_address_data_directory_and_counts() {
    let mut server = Server::start();
    let mut lines = server.opening.clone();
    while !lines.last().is_some_and(|line| line.contains("duly schedule")) {
        lines.push(server.process.line());
    }
    let opening = lines.join("\n");
    for part in [server.url.as_str(), text(&server.data()), "0 pending", "0 overdue", "opened in"] {
        assert!(opening.contains(part), "{part}: {opening}");
    }
}

#[test]
fn serves_several_addresses_and_a_unix_socket() {
    let directory = tempfile::TempDir::new().expect("a temporary directory");
    let (data, other) = (directory.path().join("data"), directory.path().join("other"));
    let socket = directory.path().join("duly.sock");
    let unix = format!("unix:{}", text(&socket));
    let mut command = duly();
    let listen = format!("127.0.0.1:0,{unix}");
    command.args(["serve", "--listen", &listen, "--data", text(&data)]);
    let mut server = Process::of(command);
    let (url, _) = server.address();
    assert_eq!(server.line().trim(), format!("also on {unix}"));

    run(&["schedule", "n", "x", "--in", "1h", "--server", &unix]).ok();
    let timer = run(&["get", "n", "x", "--server", &url, "--output", "json"]).json();
    assert_eq!(timer["id"], "x");
    let message = run(&["serve", "--listen", &unix, "--data", text(&other)]).refused(1);
    assert!(message.contains("another server has this socket"), "{message}");
    run(&["health", "--server", &unix]).ok();

    server.signal(Signal::TERM);
    assert_eq!(server.ended().0.code(), Some(0));
    assert!(!socket.exists());
    let message = run(&["health", "--server", &unix]).refused(1);
    assert!(message.contains(&format!("no Duly server answers at {unix}")), "{message}");
}

#[test]
fn a_service_manager_learns_of_start_watchdog_and_stop() {
    let directory = tempfile::TempDir::new().expect("a temporary directory");
    let path = directory.path().join("notify.sock");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket.set_read_timeout(Some(DEADLINE)).expect("set");
    let mut command = duly();
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "100000");
    command.args(["serve", "--listen", "127.0.0.1:0", "--data"]);
    command.arg(directory.path().join("data"));
    let mut server = Process::of(command);
    let receive = || {
        let mut buffer = [0; 512];
        let length = socket.recv(&mut buffer).expect("a message");
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    };
    assert!(receive().contains("STATUS=opening the store"));
    let ready = receive();
    let (url, _) = server.address();
    assert!(ready.contains("READY=1") && ready.contains(&url), "{ready}");
    for _ in 0..3 {
        assert_eq!(receive().trim(), "WATCHDOG=1");
    }
    server.signal(Signal::TERM);
    let stopping = std::iter::repeat_with(receive).find(|message| message.trim() != "WATCHDOG=1");
    assert!(stopping.is_some_and(|message| message.contains("STOPPING=1")));
    assert_eq!(server.ended().0.code(), Some(0));
}

#[test]
fn lines_for_the_journal_begin_with_their_priority() {
    let directory = tempfile::TempDir::new().expect("a temporary directory");
    let mut command = shell(
        r#"export JOURNAL_STREAM=$(stat -L -c %d:%i /dev/stderr)
        "$0" serve --config /missing.toml
        exec "$0" "$@""#,
    );
    command.args(["serve", "--listen", "127.0.0.1:0", "--data", text(directory.path())]);
    let mut server = Process::of(command);
    server.address();
    server.signal(Signal::TERM);
    let (_, log) = server.ended();
    let starts = |line: &str| ["<3>", "<4>", "<6>"].iter().any(|it| line.starts_with(it));
    assert!(log.contains("<3>error:") && log.contains("stopping"), "{log}");
    assert!(log.lines().all(starts), "{log}");
}

#[test]
fn external_authentication_opens_other_addresses() {
    let directory = tempfile::TempDir::new().expect("a temporary directory");
    let mut command = duly();
    command.env("DULY_AUTH__EXTERNAL", "true");
    command.args(["serve", "--listen", "0.0.0.0:0", "--data", text(directory.path())]);
    let mut server = Process::of(command);
    let (url, _) = server.address();
    run(&["schedule", "n", "x", "--in", "1h", "--server", &url]).ok();
}

#[test]
fn low_open_file_limit_is_logged_at_startup() {
    let directory = tempfile::TempDir::new().expect("a temporary directory");
    let serve = |files: &str, connections: &str| {
        let mut limited = shell(&format!("ulimit -n {files} && exec \"$0\" \"$@\""));
        limited.args(["serve", "--listen", "127.0.0.1:0", "--data", text(directory.path())]);
        limited.env("DULY_SERVER__CONNECTIONS_MAX", connections);
        let mut server = Process::of(limited);
        server.address();
        server.signal(Signal::TERM);
        server.ended().1
    };
    let said = serve("4000", "20000");
    assert!(said.contains("the limit of open files is too low"), "{said}");
    let figures = ["allowed=4000", "connections_max=1568", "configured=20000"];
    assert!(figures.iter().all(|figure| said.contains(figure)), "{said}");
    let said = serve("4000", "1000");
    assert!(!said.contains("limit of open files"), "{said}");
}

/// A caller with more connections than there are files takes none of those that the store needs.
#[test]
fn idle_connections_take_no_files_from_the_store() {
    let directory = tempfile::TempDir::new().expect("a temporary directory");
    let data = directory.path().join("data");
    let mut limited = shell("ulimit -n 300 && exec \"$0\" \"$@\"");
    limited.env("DULY_STORE__SEGMENT_BYTES", "1MiB");
    limited.args(["serve", "--listen", "127.0.0.1:0", "--data", text(&data)]);
    let mut server = Process::of(limited);
    let (url, _) = server.address();
    let address = url.strip_prefix("http://").expect("an address");
    let mut idle: Vec<_> =
        (0..400).map(|_| TcpStream::connect(address).expect("the kernel takes it")).collect();
    // The last connection gets the place of an earlier one, so all earlier ones were processed.
    let last = idle.last_mut().expect("there are 400");
    last.write_all(b"GET /v1/namespaces HTTP/1.1\r\nhost: localhost\r\n\r\n").expect("asked");
    last.set_read_timeout(Some(DEADLINE)).expect("set");
    let mut told = [0; 12];
    last.read_exact(&mut told).expect("it is answered");
    assert_eq!(&told, b"HTTP/1.1 200");
    let _idle = idle.split_off(10);
    drop(idle);

    let payload = directory.path().join("payload");
    fs::write(&payload, vec![7; 200_000]).expect("written");
    let call = |args: &[&str]| -> Ran {
        duly().args(args).env("DULY_SERVER", &url).output().expect("duly starts").into()
    };
    let until = Instant::now() + DEADLINE;
    while call(&["health"]).code != Some(0) {
        assert!(Instant::now() < until, "the places of those that have gone are free");
    }
    // Enough data for several segments.
    for i in 0..20 {
        let id = format!("t{i}");
        call(&["schedule", "n", &id, "--in", "1h", "--payload-file", text(&payload)]).ok();
    }
    let segments = fs::read_dir(data.join("journal")).expect("it is there").count();
    assert!(segments > 3, "{segments}");
    call(&["health"]).ok();
}

#[test]
fn a_signal_drains_it_and_exits_0() {
    for signal in [Signal::INT, Signal::TERM] {
        let mut server = Server::start();
        server.run(&["schedule", "n", "x", "--in", "1h"]).ok();
        server.process.signal(signal);
        let (status, stderr) = server.process.ended();
        assert_eq!(status.code(), Some(0), "{stderr}");
    }
}

#[test]
fn a_hang_up_ends_no_server() {
    let mut server = Server::start();
    server.process.signal(Signal::HUP);
    server.run(&["health"]).ok();
    server.process.signal(Signal::TERM);
    let (status, stderr) = server.process.ended();
    assert_eq!(status.code(), Some(0), "{stderr}");
    assert!(stderr.contains("SIGHUP"), "{stderr}");
}

/// The configuration comes through a pipe: the server is at its first step while the pipe is full.
#[test]
fn a_hang_up_during_the_start_ends_no_server() {
    let data = tempfile::TempDir::new().expect("a temporary directory");
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    let mut command = duly();
    command.args(["serve", "--config", "/dev/stdin", "--listen", "127.0.0.1:0"]);
    command.args(["--data", text(data.path())]).stdin(reader);
    let mut server = Process::of(command);
    let more_than_a_pipe_holds = "# a comment\n".repeat(10_000);
    writer.write_all(more_than_a_pipe_holds.as_bytes()).expect("the server reads it");
    server.signal(Signal::HUP);
    drop(writer);
    server.address();
    server.signal(Signal::TERM);
    let (status, stderr) = server.ended();
    assert_eq!(status.code(), Some(0), "{stderr}");
}

#[test]
fn a_unix_socket_is_never_open_to_other_users() {
    for _ in 0..5 {
        let directory = tempfile::TempDir::new().expect("a temporary directory");
        let socket = directory.path().join("duly.sock");
        let unix = format!("unix:{}", text(&socket));
        let data = directory.path().join("data");
        let mut command = duly_without_umask();
        let listen = format!("127.0.0.1:0,{unix}");
        command.args(["serve", "--listen", &listen, "--data", text(&data)]);
        let mut server = Process::of(command);
        let watch = std::thread::spawn({
            let socket = socket.clone();
            // From the moment at which the file is there.
            move || {
                let began = Instant::now();
                let mut modes = BTreeSet::new();
                while began.elapsed() < DEADLINE {
                    if let Ok(found) = fs::metadata(&socket) {
                        modes.insert(found.permissions().mode() & 0o777);
                        if UnixStream::connect(&socket).is_ok() {
                            break;
                        }
                    }
                }
                modes
            }
        });
        server.address();
        let modes = watch.join().expect("no panic");
        assert_eq!(modes.into_iter().collect::<Vec<_>>(), [0o660]);
    }
}

#[test]
fn a_second_signal_does_not_wait_for_the_drain() {
    let mut server = Server::start();
    // A receiver that accepts the delivery and never responds.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/", silent.local_addr().expect("bound"));
    server.run(&["schedule", "n", "x", "--in", "0", "--url", &url]).ok();
    let _delivery = silent.accept().expect("a delivery");
    server.process.signal(Signal::INT);
    let (status, stderr) = loop {
        // Two signals at the same time can merge into one, so the second one is repeated.
        server.process.signal(Signal::INT);
        if let Some(ended) = server.process.try_ended() {
            break ended;
        }
        std::thread::yield_now();
    };
    assert_eq!(status.code(), Some(1), "{stderr}");
}

#[test]
fn after_kill_9_every_acknowledged_timer_is_there() {
    let server = Server::start();
    server.run(&["schedule", "n", "far", "--in", "1h", "--payload", r#"{"a": 1}"#]).ok();
    server.run(&["schedule", "n", "gone", "--in", "1h"]).ok();
    server.run(&["cancel", "n", "gone"]).ok();
    server.run(&["schedule", "n", "near", "--in", "0"]).ok();
    let before = server.run(&["--output", "json", "get", "n", "far"]).ok();

    let server = server.kill_and_restart();
    assert_eq!(server.run(&["--output", "json", "get", "n", "far"]).ok(), before);
    assert_eq!(server.json(&["get", "n", "gone"])["state"], "cancelled");
    let leased = server.json(&["lease", "n", "--wait", "20s"]);
    assert_eq!(leased["firings"][0]["id"], "near");
}

#[test]
fn a_store_that_ended_makes_it_exit_74_and_log_the_cause_last() {
    let directory = tempfile::TempDir::new().expect("a temporary directory");
    let data = directory.path().join("data");
    let data = text(&data);
    // Writing above the file size limit would kill the process by a signal; the trap turns this into a
    // failed write.
    let mut limited = shell("trap '' 25; exec \"$0\" \"$@\"");
    limited.args(["serve", "--listen", "127.0.0.1:0", "--data", data]);
    let mut server = Process::of(limited);
    let (url, _) = server.address();
    let call = |args: &[&str]| -> Ran {
        duly().args(args).env("DULY_SERVER", &url).output().expect("duly starts").into()
    };
    call(&["schedule", "n", "before", "--in", "1h"]).ok();
    let none = Rlimit { current: Some(0), maximum: Some(1 << 40) };
    let pid = Pid::from_raw(i32::try_from(server.id()).expect("a pid is an i32"));
    rustix::process::prlimit(pid, Resource::Fsize, none).expect("the child is ours");
    let refused = call(&["schedule", "n", "after", "--in", "1h"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");

    let (status, stderr) = server.ended();
    assert_eq!(status.code(), Some(74), "{stderr}");
    let last = stderr.lines().last().expect("it logs");
    let cause = "the store has ended: writing the journal failed (cannot write to";
    assert!(last.contains("ERROR") && last.contains(cause), "{stderr}");

    let mut server = Process::start(&["serve", "--data", data, "--listen", "127.0.0.1:0"]);
    let (url, _) = server.address();
    let found = duly().args(["get", "n", "before"]).env("DULY_SERVER", url).output();
    Ran::from(found.expect("duly starts")).ok();
}

#[test]
fn a_directory_in_use_is_refused_with_the_process_that_uses_it() {
    let server = Server::start();
    let data = server.data();
    let args = ["serve", "--data", text(&data), "--listen", "127.0.0.1:0"];
    let message = run(&args).refused(1);
    assert!(message.contains(text(&data)), "{message}");
    assert!(
        message.contains("in use") || message.contains("locked") || message.contains("open"),
        "{message}"
    );
    server.run(&["schedule", "n", "x", "--in", "1h"]).ok();
}

#[test]
fn a_port_in_use_is_refused_before_the_data_is_touched() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("bound").to_string();
    let directory = tempfile::tempdir().expect("a temporary directory");
    let data = directory.path().join("data");
    let args = ["serve", "--data", text(&data), "--listen", &address];
    let message = run(&args).refused(1);
    assert!(message.contains(&address) && message.contains("--listen"), "{message}");
    assert!(!data.exists(), "made although the port is taken");

    // An existing directory keeps every byte and every modification time.
    let mut server = Server::start();
    server.run(&["schedule", "n", "x", "--in", "1h"]).ok();
    server.process.signal(Signal::TERM);
    server.process.ended();
    let data = server.data();
    let before = picture(&data);
    assert!(before.len() > 2, "{before:?}");
    let message = run(&["serve", "--data", text(&data), "--listen", &address]).refused(1);
    assert!(message.contains(&address), "{message}");
    assert_eq!(picture(&data), before);
}

/// Returns every file below a directory, with its bytes and modification time.
fn picture(directory: &Path) -> BTreeMap<PathBuf, (Vec<u8>, SystemTime)> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(directory).expect("readable") {
        let entry = entry.expect("readable");
        let metadata = entry.metadata().expect("readable");
        if metadata.is_dir() {
            files.extend(picture(&entry.path()));
        } else {
            let bytes = fs::read(entry.path()).expect("readable");
            files.insert(entry.path(), (bytes, metadata.modified().expect("known")));
        }
    }
    files
}

#[test]
fn a_directory_of_something_else_is_refused_and_left_as_it_is() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    fs::write(directory.path().join("notes.txt"), "mine").expect("written");
    let before = picture(directory.path());
    let args = ["serve", "--data", text(directory.path()), "--listen", "127.0.0.1:0"];
    let message = run(&args).refused(1);
    for part in [text(directory.path()), "notes.txt", "no Duly store", "flag --data"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert_eq!(picture(directory.path()), before);
}

#[test]
fn logs_in_a_file_are_not_coloured() {
    let mut server = Server::start();
    server.run(&["schedule", "n", "x", "--in", "1h"]).ok();
    server.process.signal(Signal::TERM);
    let (_, stderr) = server.process.ended();
    assert!(stderr.contains("stopping") && !stderr.contains('\u{1b}'), "{stderr:?}");
}

#[test]
fn startup_errors_are_one_message() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let path = |name: &str| text(&directory.path().join(name)).to_owned();
    fs::write(path("file"), "x").expect("written");
    fs::write(path("bad-key.toml"), "[store]\ndatta = \"x\"\n").expect("written");
    fs::write(path("bad-toml.toml"), "[store\n").expect("written");
    let data = path("data");
    for (args, parts) in [
        (vec!["--data", &path("file")], vec![path("file")]),
        (vec!["--data", &path("file/below")], vec![path("file/below"), "--data".to_owned()]),
        // A place in which the system lets no process create anything.
        #[cfg(target_os = "linux")]
        (
            vec!["--data", "/proc/duly"],
            vec!["/proc/duly".to_owned(), "nothing can be created in /proc".to_owned()],
        ),
        (vec!["--data", &data, "--listen", "0.0.0.0:0"], vec!["0.0.0.0".to_owned()]),
        (vec!["--data", &data, "--config", &path("missing.toml")], vec![path("missing.toml")]),
        (
            vec!["--data", &data, "--config", &path("bad-key.toml")],
            vec![path("bad-key.toml"), "datta".to_owned()],
        ),
        (vec!["--data", &data, "--config", &path("bad-toml.toml")], vec![path("bad-toml.toml")]),
    ] {
        let mut all = vec!["serve"];
        all.extend(&args);
        if !args.contains(&"--listen") {
            all.extend(["--listen", "127.0.0.1:0"]);
        }
        let message = run(&all).refused(1);
        for part in parts {
            assert!(message.contains(&part), "{args:?} lacks {part}: {message}");
        }
    }
}

#[test]
fn bad_flags_exit_2() {
    for args in [&["serve", "--port", "1"][..], &["serve", "--listen", "here"]] {
        assert_eq!(run(args).code, Some(2), "{args:?}");
    }
}

#[test]
fn a_damaged_directory_is_not_opened_and_not_touched() {
    let mut server = Server::start();
    server.run(&["schedule", "n", "x", "--in", "1h"]).ok();
    let data = server.data();
    server.process.signal(Signal::TERM);
    server.process.ended();
    let files = ["MANIFEST", "MANIFEST.copy"].map(|name| data.join(name));
    let mut bytes = fs::read(&files[0]).expect("a manifest");
    bytes[16] ^= 0xff;
    files.iter().for_each(|file| fs::write(file, &bytes).expect("written"));
    let args = ["serve", "--data", text(&data), "--listen", "127.0.0.1:0"];
    let message = run(&args).refused(1);
    assert!(message.contains("MANIFEST"), "{message}");
    files.iter().for_each(|file| assert_eq!(fs::read(file).expect("still there"), bytes));
}

#[test]
fn without_flags_the_data_is_in_the_working_directory() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let help = duly()
        .current_dir(directory.path())
        .args(["serve", "--help"])
        .output()
        .expect("duly starts");
    let help = String::from_utf8(help.stdout).expect("UTF-8");
    assert!(help.contains("duly-data") && help.contains("127.0.0.1:3859"), "{help}");
    let mut server = Process::start(&[
        "serve",
        "--data",
        text(&directory.path().join("new/dir")),
        "--listen",
        "127.0.0.1:0",
    ]);
    server.address();
    assert!(directory.path().join("new/dir").is_dir());
}
