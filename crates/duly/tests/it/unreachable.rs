//! Servers that do not respond, or are not Duly servers.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    thread,
};

use duly_redis_testkit::server::free_port;

use crate::harness::run;

#[test]
fn unreachable_server_error_names_duly_serve() {
    let url = format!("http://127.0.0.1:{}", free_port());
    let message = run(&["--server", &url, "get", "n", "i"]).refused(1);
    for part in [url.as_str(), "no Duly server answers", "`duly serve`", "--server"] {
        assert!(message.contains(part), "{message}");
    }
}

#[test]
fn foreign_server_is_detected() {
    let (of_settings, of_a_timer) = (&["namespace", "get", "n"][..], &["get", "n", "i"][..]);
    let (refused, ok) = ("HTTP/1.1 404 Not Found", "HTTP/1.1 200 OK");
    for (args, answer, part) in [
        (of_settings, format!("{refused}\r\ncontent-length: 2\r\n\r\nno"), "not as a Duly server"),
        (
            of_settings,
            format!("{ok}\r\ncontent-length: 2\r\n\r\nno"),
            "check that it is a Duly \
                                                                       server",
        ),
        (of_settings, format!("{ok}\r\ncontent-length: 9\r\n\r\n{{}}"), "nothing was changed"),
        (of_a_timer, format!("{refused}\r\ncontent-length: 2\r\n\r\nno"), "not as a Duly server"),
        (
            of_a_timer,
            format!("{ok}\r\ncontent-length: 2\r\n\r\nno"),
            "check that it is a Duly \
                                                                      server",
        ),
    ] {
        let reply = answer.clone();
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let server = thread::spawn(move || {
            let (mut connection, _) = listener.accept().expect("a call");
            let mut request = [0; 4096];
            let read = connection.read(&mut request).expect("a request");
            connection.write_all(reply.as_bytes()).expect("answered");
            read
        });
        let message = run(&[&["--server", &url], args].concat()).refused(1);
        assert!(server.join().expect("served") > 0);
        assert!(message.contains(part), "{answer}: {message}");
    }
}
