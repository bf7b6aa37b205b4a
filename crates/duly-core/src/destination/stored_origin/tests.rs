use proptest::prelude::*;

use super::*;

/// Returns the origin of a URL by full parsing.
fn parsed(url: &str) -> Option<String> {
    Some(HttpDestination::from_stored(url).ok()?.origin())
}

fn check(url: &str) {
    if let Some(origin) = plain_origin(url) {
        assert_eq!(parsed(url).as_deref(), Some(origin), "{url:?}");
    }
    assert_eq!(origin_of(url).ok().map(Cow::into_owned), parsed(url), "{url:?}");
}

#[test]
fn usual_receivers_are_told_by_their_text() {
    for (url, origin) in [
        ("https://example.com/hook", "https://example.com"),
        ("http://a.example:8080/", "http://a.example:8080"),
        ("https://localhost:65535/?q=1", "https://localhost:65535"),
        ("http://10.in-addr.example/a@b:c", "http://10.in-addr.example"),
    ] {
        assert_eq!(plain_origin(url), Some(origin));
        check(url);
    }
}

#[test]
fn receivers_whose_text_is_not_their_origin_are_parsed() {
    for url in [
        "https://127.0.0.1/",
        "https://0x7f.1/",
        "https://a.0xf/",
        "https://[::1]:80/",
        "https://a.example:443/",
        "http://a.example:080/",
        "http://a.example:/",
        "http://a.example:65536/",
        "https://user@a.example/",
        "https://a.example\\@b.example/",
        "https://a.exa\tmple/",
        "https://xn--bcher-kva.example/",
        "https://xn--zzzz.example/",
        "https://A.example/",
        "https://a.example./",
        "https:///",
        "https:a.example/",
        "ftp://a.example/",
        "a.example",
        "",
    ] {
        assert_eq!(plain_origin(url), None, "{url:?}");
        check(url);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn plain_origins_agree_with_parsing(
        url in "(http|https|ftp)://[a-z0-9.:@x-]{0,12}(\\.(exam|0x)?[a-f0-9]{0,3})?(:[0-9]{0,6})?[/?#\\\\\t]?.{0,4}",
    ) {
        check(&url);
    }
}
