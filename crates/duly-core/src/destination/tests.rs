use super::*;

#[test]
fn urls() {
    for good in [
        "http://127.0.0.1:9000/hook",
        "https://example.com",
        "https://example.com./",
        "http://[::1]:80/a?b=c",
    ] {
        assert!(HttpDestination::new(good).is_ok(), "{good}");
    }
    let long = format!("http://a/{}", "x".repeat(URL_BYTES_MAX));
    for bad in [
        "",
        "a",
        "/hook",
        "ftp://a/b",
        "http://",
        "file:///etc/passwd",
        "http://u:p@a/",
        "http://a/#f",
        "http://a:0/",
        "http://a..acme.example/",
        "http://.acme.example/",
        "http://acme.example../",
        "http://./",
        &long,
    ] {
        let invalid = HttpDestination::new(bad).unwrap_err();
        assert_eq!(invalid.field, "url", "{bad}");
    }
}

#[test]
fn credentials_are_not_shown_back() {
    let invalid = HttpDestination::new("http://user:secret@host/").unwrap_err();
    assert!(!invalid.to_string().contains("secret"));
}

#[test]
fn lanes_follow_the_origin() {
    let lane = |url: &str| Destination::Http(HttpDestination::new(url).unwrap()).lane_key();
    assert_eq!(lane("http://a/x"), lane("http://A:80/y?z"));
    assert_ne!(lane("http://a/x"), lane("https://a/x"));
    assert_ne!(lane("http://a/x"), lane("http://a:81/x"));
    assert_eq!(Destination::Pull.lane_key(), LaneKey::Pull);
}

#[test]
fn receivers_are_the_same_only_by_their_whole_url() {
    let http = |url: &str| HttpDestination::new(url).unwrap();
    let mut put = http("http://a/x?y");
    put.method = Method::Put;
    let put = Destination::Http(put);
    for (other, same) in [
        (Destination::Http(http("http://a/x?y")), true),
        (Destination::Http(http("http://a/x?z")), false),
        (Destination::Pull, false),
    ] {
        assert_eq!((put.has_receiver_of(&other), other.has_receiver_of(&put)), (same, same));
        assert!(other.has_receiver_of(&other));
    }
}

#[test]
fn a_rule_refuses_what_a_destination_reaches_at_its_field() {
    let refuse = |url: &Url| Err(Invalid::new("", url, "another one"));
    let http = Destination::Http(HttpDestination::new("http://a/").unwrap());
    assert_eq!(http.allowed_by(refuse).unwrap_err().field, "http.url");
    assert_eq!(http.allowed_by(|_| Ok(())), Ok(()));
    assert_eq!(Destination::Pull.allowed_by(refuse), Ok(()), "it reaches nothing");
}

#[test]
fn no_refusal_shows_a_credential() {
    for (url, seen) in [
        ("http://user:secret@host:99999/", None),
        ("http:user:secret@/", None),
        ("ftp://user:secret@host/", None),
        ("http://user:sec?ret@host:x/", None),
        ("http://host:0/?token=secret", Some("\"http://host:0/?…\"")),
        ("http://host/?token=secret#x", Some("\"http://host/?…\"")),
    ] {
        let invalid = HttpDestination::new(url).unwrap_err();
        assert_eq!((invalid.field.as_str(), invalid.seen.as_deref()), ("url", seen), "{url}");
        assert!(!invalid.to_string().contains("secret"), "{invalid}");
    }
}
