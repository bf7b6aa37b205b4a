//! The certificate of a server: served, reloaded, refused.

use super::*;

/// The certificate of a server on 127.0.0.1, which is its own authority, and its key.
fn write_certificate(certificate: &Path, key: &Path) {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).expect("a certificate");
    fs::write(certificate, made.cert.pem()).expect("written");
    fs::write(key, made.signing_key.serialize_pem()).expect("written");
}

#[test]
fn p10_commands_refuse_long_chains_of_certificates() {
    let directory = tempfile::TempDir::new().expect("a temporary directory");
    let path = |name: &str| directory.path().join(name);
    let (authority, chain, key) = (path("ca.pem"), path("chain.pem"), path("server.key"));
    write_certificate(&authority, &key);
    for (certificates, is_accepted) in [(9, true), (10, false)] {
        let pem = fs::read_to_string(&authority).expect("read").repeat(certificates);
        fs::write(&chain, pem).expect("written");
        let mut command = duly();
        command.args(["serve", "--listen", "127.0.0.1:0", "--data", text(&path("data"))]);
        command.env("DULY_TLS__CERTIFICATE_FILE", &chain).env("DULY_TLS__KEY_FILE", &key);
        let mut server = Process::of(command);
        let (url, _) = server.address();
        let ran = run(&["health", "--server", &url, "--ca-file", text(&authority)]);
        assert_eq!(ran.code == Some(0), is_accepted, "{certificates}: {}", ran.stderr);
        assert_eq!(ran.stderr.contains("the peer sent 10 certificates"), !is_accepted);
        server.signal(Signal::TERM);
        server.ended();
    }
}

#[test]
fn tls_is_served_and_its_certificate_reloaded() {
    let directory = tempfile::TempDir::new().expect("a temporary directory");
    let path = |name: &str| directory.path().join(name);
    let (certificate, key, first) = (path("server.pem"), path("server.key"), path("first.pem"));
    write_certificate(&certificate, &key);
    fs::copy(&certificate, &first).expect("copied");
    let (data, socket) = (path("data"), format!("unix:{}", text(&path("duly.sock"))));
    let mut command = duly();
    command.args(["serve", "--data", text(&data)]);
    command.args(["--listen", &format!("127.0.0.1:0,{socket}")]);
    command.env("DULY_TLS__CERTIFICATE_FILE", &certificate).env("DULY_TLS__KEY_FILE", &key);
    let mut server = Process::of(command);
    let (url, _) = server.address();
    assert!(url.starts_with("https://"), "{url}");
    let health = |server: &str, authority: &Path| {
        run(&["health", "--server", server, "--ca-file", text(authority)])
    };

    health(&url, &first).ok();
    run(&["schedule", "n", "x", "--in", "1h", "--server", &url, "--ca-file", text(&first)]).ok();
    // There is no TLS on the socket, and nothing else on the port.
    run(&["get", "n", "x", "--server", &socket]).ok();
    let message = run(&["health", "--server", &url]).refused(1);
    assert!(message.contains("name its authority with --ca-file"), "{message}");
    let message = run(&["health", "--server", &url.replace("https", "http")]).refused(1);
    assert!(message.contains("write https:// in place of http://"), "{message}");
    let metrics = run(&["metrics", "tls_certificate", "--server", &socket]).ok();
    assert!(metrics.contains("duly_tls_certificate_expiry_timestamp_seconds"), "{metrics}");

    // A key that does not match leaves the certificate in use; then a whole pair replaces it.
    write_certificate(&path("other.pem"), &key);
    server.signal(Signal::HUP);
    health(&url, &first).ok();
    let renewed = path("renewed.pem");
    write_certificate(&renewed, &key);
    fs::rename(&renewed, &certificate).expect("replaced");
    let until = Instant::now() + DEADLINE;
    while health(&url, &certificate).code != Some(0) {
        assert!(Instant::now() < until, "the new certificate is used");
        server.signal(Signal::HUP);
    }
    let message = health(&url, &first).refused(1);
    assert!(message.contains("is refused"), "{message}");

    server.signal(Signal::TERM);
    let (status, log) = server.ended();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(log.contains("TLS certificate reloaded"), "{log}");
}

#[test]
fn a_certificate_without_its_key_is_refused_at_startup() {
    let directory = tempfile::TempDir::new().expect("a temporary directory");
    let path = |name: &str| directory.path().join(name);
    let (certificate, key) = (path("server.pem"), path("server.key"));
    write_certificate(&certificate, &key);
    write_certificate(&path("other.pem"), &key);
    let start = |certificate: &Path, key: &str| {
        let mut command = duly();
        command.args(["serve", "--listen", "127.0.0.1:0", "--data", text(&path("data"))]);
        command.env("DULY_TLS__CERTIFICATE_FILE", certificate).env("DULY_TLS__KEY_FILE", key);
        Ran::from(command.output().expect("duly starts")).refused(1)
    };
    for (message, part) in [
        (start(&certificate, text(&key)), "it does not match the certificate"),
        (start(&certificate, text(&path("none.key"))), "no private key can be read from it"),
        (start(&key, text(&key)), "there is no certificate in it"),
        (start(&certificate, ""), "set together with tls.key_file, which is empty"),
    ] {
        assert!(message.contains("tls.") && message.contains(part), "{part}: {message}");
    }
    assert!(!path("data").exists());
}
