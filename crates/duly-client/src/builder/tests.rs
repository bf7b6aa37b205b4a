use super::*;

fn refusal(builder: Builder) -> String {
    match builder.build() {
        Ok(_) => panic!("it is taken"),
        Err(error) => error.to_string(),
    }
}

fn local() -> Builder {
    Client::builder("http://127.0.0.1:3859")
}

#[tokio::test]
async fn address_has_only_scheme_and_host() {
    for url in
        ["http://localhost:3859", "http://127.0.0.1:3859/", "http://[::1]:3859", "http://h/duly/"]
    {
        assert!(Client::new(url).is_ok(), "{url}");
    }
    for (url, why) in [
        ("localhost:3859", "does not begin with"),
        ("localhost", "does not begin with"),
        ("", "empty"),
        ("ftp://localhost", "another protocol"),
        ("http://localhost:3859?x=1", "query"),
        ("http://me:secret@localhost", "token"),
        ("http://", "http://host:port"),
        ("http://local host", "http://host:port"),
    ] {
        let refusal = refusal(Client::builder(url));
        assert!(refusal.starts_with("url must be http://host:port"), "{url}: {refusal}");
        assert!(refusal.contains(why), "{url}: {refusal}");
        assert!(!refusal.contains("secret"), "{refusal}");
    }
}

#[cfg(feature = "tls")]
#[tokio::test]
async fn certificates_must_be_readable() {
    assert!(Client::new("https://duly.example").is_ok());
    let wrong = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let remote = || Client::builder("https://duly.example");
    for authorities in [wrong, "", "no certificate"] {
        let refusal = refusal(remote().ca_certificate(authorities));
        assert!(refusal.starts_with("ca_certificate must be one or more"), "{refusal}");
    }
    let refusal = refusal(remote().client_certificate(wrong, "no key"));
    assert!(refusal.starts_with("tls must be readable"), "{refusal}");
}

#[tokio::test]
async fn limits_outside_their_bounds_are_refused() {
    let (zero, day) = (Duration::ZERO, Duration::from_secs(86_400));
    let retries = |change: fn(&mut Retries)| {
        let mut retries = Retries::default();
        change(&mut retries);
        local().retries(retries)
    };
    let batching = |change: fn(&mut Batching)| {
        let mut batching = Batching::default();
        change(&mut batching);
        local().batching(batching)
    };
    for (builder, field, seen) in [
        (local().timeout(zero), "timeout", "0ns"),
        (local().timeout(day), "timeout", "86400s"),
        (local().connect_timeout(zero), "connect_timeout", "0ns"),
        (local().message_bytes_max(0), "message_bytes_max", "0"),
        (retries(|it| it.tries_max = 0), "retries.tries_max", "0"),
        (retries(|it| it.first_wait = Duration::ZERO), "retries.first_wait", "0ns"),
        (retries(|it| it.longest_wait = Duration::ZERO), "retries.longest_wait", "0ns"),
        (batching(|it| it.linger = Duration::MAX), "batching.linger", "s"),
        (batching(|it| it.batches_max = 65), "batching.batches_max", "65"),
        (batching(|it| it.operations_max = 10_001), "batching.operations_max", "10001"),
        (batching(|it| it.bytes_max = 0), "batching.bytes_max", "0"),
        (batching(|it| it.waiting_bytes_max = 0), "batching.waiting_bytes_max", "0"),
    ] {
        let refusal = refusal(builder);
        assert!(refusal.starts_with(&format!("{field} must be from ")), "{refusal}");
        assert!(refusal.contains(seen), "{refusal}");
    }
}

#[tokio::test]
async fn a_token_is_checked_and_never_shown() {
    for token in ["", "two words", "line\nbreak", "ünïcode"] {
        let refusal = refusal(local().token(token));
        assert!(refusal.starts_with("token must be"), "{refusal}");
        assert!(token.is_empty() || !refusal.contains(token), "{refusal}");
    }
    let builder = local().token("s3cret");
    assert!(!format!("{builder:?}").contains("s3cret"));
    let client = builder.build().unwrap();
    assert!(!format!("{client:?}").contains("s3cret"));
    let refusal = refusal(local().user_agent("a\nb"));
    assert!(refusal.starts_with("user_agent must be"), "{refusal}");
}

#[test]
fn build_without_a_runtime_is_an_error() {
    assert!(refusal(local()).contains("Tokio runtime"));
}

#[test]
fn client_is_send_and_sync() {
    fn is<T: Clone + Send + Sync + 'static>() {}
    is::<Client>();
}
