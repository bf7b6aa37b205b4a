use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use duly_core::access::LoginPlace;
use ring::{
    hmac,
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _},
};
use serde_json::json;

use super::*;
use crate::auth::{Auth, AuthModes};

const ALL: [Algorithm; 3] = [Algorithm::RS256, Algorithm::ES256, Algorithm::EdDSA];
const NOW: u64 = 1_800_000_000;

/// The key of an issuer.
pub(in crate::auth) struct Issuer {
    key: EcdsaKeyPair,
    random: SystemRandom,
}

fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn now() -> Timestamp {
    Timestamp::saturating_from_unix_ms(NOW * 1_000)
}

pub(in crate::auth) fn claims() -> Value {
    json!({"iss": "https://id.example", "aud": ["duly", "other"], "exp": NOW + 600, "sub": "worker-1",
           "groups": ["staff", "orders"]})
}

impl Issuer {
    pub(in crate::auth) fn new() -> Self {
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
        let document = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
        let key = EcdsaKeyPair::from_pkcs8(algorithm, document.as_ref(), &random).unwrap();
        Self { key, random }
    }

    fn public(&self) -> &[u8] {
        self.key.public_key().as_ref()
    }

    pub(in crate::auth) fn jwks(&self, kid: &str) -> Value {
        let point = self.public();
        json!({"keys": [{"kty": "EC", "crv": "P-256", "kid": kid, "use": "sig",
                         "x": encode(&point[1..33]), "y": encode(&point[33..])}]})
    }

    pub(in crate::auth) fn token(&self, header: &Value, claims: &Value) -> String {
        let signed = format!("{}.{}", encode(header.to_string()), encode(claims.to_string()));
        let signature = self.key.sign(&self.random, signed.as_bytes()).unwrap();
        format!("{signed}.{}", encode(signature))
    }
}

pub(in crate::auth) fn header() -> Value {
    json!({"alg": "ES256", "kid": "one", "typ": "JWT"})
}

pub(in crate::auth) fn tokens(jwks: &Value) -> Tokens {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), jwks.to_string()).unwrap();
    Tokens::new(TokenOptions {
        issuer: "https://id.example".to_owned(),
        audience: "duly".to_owned(),
        keys: KeysPlace::File(file.path().to_owned()),
        algorithms: ALL.to_vec(),
        groups_claim: "groups".to_owned(),
        reload: Duration::from_secs(300),
    })
    .unwrap()
}

fn subjects(tokens: &Tokens, token: &str) -> Option<Vec<String>> {
    let verified = tokens.verify(token, now())?;
    Some(verified.subjects.iter().map(ToString::to_string).collect())
}

#[test]
fn an_issuer_whose_keys_were_never_read_admits_no_administrator() {
    let login = |keys| {
        let url = "http://127.0.0.1:1/keys".to_owned();
        let read = tokens(&Issuer::new().jwks("one"));
        let unread = || {
            let keys = KeysPlace::Url { shown: url.clone(), url };
            Tokens::new(TokenOptions { keys, ..read.options.clone() }).unwrap()
        };
        let tokens = Some(Arc::new(if keys { read } else { unread() }));
        let modes = AuthModes { keys: true, certificates: false, tokens };
        Auth::new(true, None, false).with_modes(modes).admin_login(LoginPlace::Anywhere).tokens
    };
    assert!(login(true) && !login(false));
}

#[test]
fn a_token_names_its_subject_and_then_its_groups() {
    let issuer = Issuer::new();
    let tokens = tokens(&issuer.jwks("one"));
    let token = issuer.token(&header(), &claims());
    let expected = ["jwt:sub:worker-1", "jwt:group:staff", "jwt:group:orders"];
    for _ in 0..2 {
        assert_eq!(subjects(&tokens, &token).unwrap(), expected);
    }
    // The one key of a set needs no id.
    let token = issuer.token(&json!({"alg": "ES256"}), &claims());
    assert_eq!(subjects(&tokens, &token).unwrap(), expected);
}

#[test]
fn a_remembered_token_ends_too() {
    let issuer = Issuer::new();
    let tokens = tokens(&issuer.jwks("one"));
    let token = issuer.token(&header(), &claims());
    assert!(tokens.verify(&token, now()).is_some());
    let end = Timestamp::saturating_from_unix_ms((NOW + 600 + 30) * 1_000);
    assert!(tokens.verify(&token, end).is_none());
}

#[test]
fn other_tokens_are_refused() {
    let (issuer, other) = (Issuer::new(), Issuer::new());
    let tokens = tokens(&issuer.jwks("one"));
    let refused = |what: &str, token: &str| assert_eq!(subjects(&tokens, token), None, "{what}");
    let with = |field: &str, value: Value| {
        let mut changed = claims();
        changed[field] = value;
        issuer.token(&header(), &changed)
    };
    let without = |field: &str| {
        let mut changed = claims();
        changed.as_object_mut().unwrap().remove(field);
        issuer.token(&header(), &changed)
    };
    refused("of another issuer", &with("iss", json!("https://evil.example")));
    refused("of a list of issuers", &with("iss", json!(["https://id.example"])));
    refused("of no issuer", &with("iss", json!(null)));
    refused("for another audience", &with("aud", json!("other")));
    refused("ended", &with("exp", json!(NOW - 31)));
    refused("not yet valid", &with("nbf", json!(NOW + 31)));
    // A value of another type must not switch the check off.
    for field in ["exp", "nbf", "iat"] {
        refused("a time as text", &with(field, json!("9999999999")));
        refused("a time as a list", &with(field, json!([NOW + 600])));
        refused("a time below zero", &with(field, json!(-1)));
    }
    for field in ["iss", "aud", "exp"] {
        refused(field, &without(field));
    }
    refused("signed by another key", &other.token(&header(), &claims()));
    let unknown = json!({"alg": "ES256", "kid": "two"});
    refused("an unknown key", &issuer.token(&unknown, &claims()));
    let critical = json!({"alg": "ES256", "kid": "one", "crit": ["x"], "x": 1});
    refused("a critical extension", &issuer.token(&critical, &claims()));
    let rsa = json!({"alg": "RS256", "kid": "one"});
    refused("an algorithm of another kind of key", &issuer.token(&rsa, &claims()));
    let good = issuer.token(&header(), &claims());
    let (signed, _) = good.rsplit_once('.').unwrap();
    let (_, body) = signed.split_once('.').unwrap();
    for name in ["none", "None", "NONE"] {
        let head = encode(json!({"alg": name, "kid": "one"}).to_string());
        refused("no signature", &format!("{head}.{body}."));
    }
    // Signed with the public key as a shared secret.
    let head = encode(json!({"alg": "HS256", "kid": "one"}).to_string());
    let key = hmac::Key::new(hmac::HMAC_SHA256, issuer.public());
    let tag = hmac::sign(&key, format!("{head}.{body}").as_bytes());
    refused("a shared secret", &format!("{head}.{body}.{}", encode(tag)));
    let mut changed = claims();
    changed["sub"] = json!("admin");
    let body = encode(changed.to_string());
    let head = good.split('.').next().unwrap();
    let tail = good.rsplit('.').next().unwrap();
    refused("changed claims", &format!("{head}.{body}.{tail}"));
    for cut in [0, 1, good.len() / 2, good.len() - 1] {
        refused("a part", &good[..cut]);
    }
    refused("too long", &with("sub", json!("x".repeat(TOKEN_BYTES_MAX))));
    assert!(subjects(&tokens, &good).is_some());
}

#[test]
fn claims_have_every_form_of_rfc_7519() {
    let issuer = Issuer::new();
    let tokens = tokens(&issuer.jwks("one"));
    let ends_at = |field: &str, value: Value| {
        let mut changed = claims();
        changed[field] = value;
        let verified = tokens.verify(&issuer.token(&header(), &changed), now());
        verified.map(|verified| verified.ends_at.unix_ms())
    };
    let usual = Some((NOW + 630) * 1_000);
    for (field, value, expected) in [
        ("exp", json!(1_800_000_600.5), Some((NOW + 630) * 1_000 + 500)),
        ("exp", json!(1_799_999_970.5), Some(NOW * 1_000 + 500)),
        ("exp", json!(1_799_999_969.5), None),
        ("exp", json!(0.5), None),
        ("exp", json!(1e18), Some(Timestamp::MAX.unix_ms())),
        ("exp", json!(1e300), None),
        ("exp", json!(u64::MAX - 1), Some(Timestamp::MAX.unix_ms())),
        ("nbf", json!(1_800_000_029.5), usual),
        ("nbf", json!(1_800_000_030.5), None),
        ("nbf", json!(0), usual),
        ("nbf", json!(u64::MAX), None),
        ("nbf", json!(1e300), None),
        ("iat", json!(1_800_000_000.25), usual),
        ("iat", json!(1e300), usual),
        ("aud", json!("duly"), usual),
        ("aud", json!(["other", "duly"]), usual),
        ("aud", json!(["other"]), None),
        ("aud", json!([]), None),
        ("aud", json!({"duly": true}), None),
        ("sub", json!(1), None),
    ] {
        assert_eq!(ends_at(field, value.clone()), expected, "{field} {value}");
    }
}

#[test]
fn a_set_of_keys_may_have_some_of_unknown_kinds() {
    let issuer = Issuer::new();
    let token = issuer.token(&header(), &claims());
    let mut jwks = issuer.jwks("one");
    let unknown = json!({"kty": "AKP", "alg": "ML-DSA-65", "kid": "two", "pub": "AAAA"});
    jwks["keys"].as_array_mut().unwrap().insert(0, unknown.clone());
    assert!(subjects(&tokens(&jwks), &token).is_some());
    let shared = json!({"kty": "oct", "kid": "three", "k": "AAAA"});
    for keys in [json!([]), json!([unknown]), json!([unknown, shared])] {
        let error = parse(json!({ "keys": keys }).to_string().as_bytes(), &ALL).unwrap_err();
        assert!(error.contains("for signatures"), "{error}");
    }
}

#[test]
fn keys_with_ed25519_verify_and_those_for_encryption_do_not() {
    let random = SystemRandom::new();
    let document = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
    let key = Ed25519KeyPair::from_pkcs8(document.as_ref()).unwrap();
    let head = encode(json!({"alg": "EdDSA", "kid": "ed"}).to_string());
    let signed = format!("{head}.{}", encode(claims().to_string()));
    let token = format!("{signed}.{}", encode(key.sign(signed.as_bytes())));
    for (usage, is_good) in [("sig", true), ("enc", false)] {
        let jwks = json!({"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "ed", "use": usage,
                                    "x": encode(key.public_key())}]});
        match parse(jwks.to_string().as_bytes(), &ALL) {
            Ok(_) => assert!(is_good && subjects(&tokens(&jwks), &token).is_some(), "{usage}"),
            Err(_) => assert!(!is_good, "{usage}"),
        }
    }
}

#[tokio::test]
async fn keys_are_read_again_and_stay_if_that_fails() {
    let (first, second) = (Issuer::new(), Issuer::new());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/keys", listener.local_addr().unwrap());
    let served = Arc::new(Mutex::new(Some(first.jwks("one").to_string())));
    let document = Arc::clone(&served);
    let app = axum::Router::new().route(
        "/keys",
        axum::routing::get(move || async move {
            let document = document.lock().clone();
            document.ok_or(http::StatusCode::INTERNAL_SERVER_ERROR)
        }),
    );
    let serving = tokio::spawn(async move { axum::serve(listener, app).await });
    let options = TokenOptions {
        keys: KeysPlace::Url { shown: url.clone(), url },
        reload: Duration::from_millis(50),
        ..tokens(&first.jwks("one")).options
    };
    rustls::crypto::ring::default_provider().install_default().ok();
    let tokens = Arc::new(Tokens::new(options).unwrap());
    let fresh = tokio::spawn(Arc::clone(&tokens).keep_fresh());
    let is_good = |issuer: &Issuer, kid: &str| {
        let header = json!({"alg": "ES256", "kid": kid});
        subjects(&tokens, &issuer.token(&header, &claims())).is_some()
    };
    let until = async |wanted: &dyn Fn() -> bool| {
        for _ in 0..400 {
            if wanted() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
        panic!("it never came");
    };
    until(&|| is_good(&first, "one")).await;
    // The server of the keys is down: those that were read before stay in use.
    assert_eq!(tokens.warning(), None);
    let rsa = |n: &str| json!({"kty": "RSA", "kid": "one", "n": n, "e": "AQAB"});
    let mut shared = second.jwks("one")["keys"][0].clone();
    shared["alg"] = json!("HS256");
    for (answer, reason) in [
        (None, "500"),
        (Some(json!({"keys": []})), "none of its 0 keys"),
        (Some(json!({})), "missing field"),
        (Some(json!({"keys": [rsa("AQAB"), rsa("!!"), shared]})), "none of its 3 keys"),
    ] {
        let answer = answer.map(|answer| answer.to_string());
        *served.lock() = answer;
        until(&|| tokens.warning().is_some_and(|warning| warning.contains(reason))).await;
        assert!(is_good(&first, "one") && !is_good(&second, "two"), "{reason}");
    }
    *served.lock() = Some(second.jwks("two").to_string());
    until(&|| is_good(&second, "two")).await;
    assert_eq!(tokens.warning(), None);
    assert!(
        !is_good(&first, "one"),
        "a key that is gone verifies nothing, also what it did before"
    );
    serving.abort();
    fresh.abort();
}

/// The URL that the child process of the next test reads.
const READ_BY_CHILD: &str = "DULY_TEST_KEYS_URL";

#[tokio::test]
async fn proxies_of_the_environment_carry_no_keys() {
    if let Ok(url) = std::env::var(READ_BY_CHILD) {
        rustls::crypto::ring::default_provider().install_default().ok();
        assert_eq!(fetch(&url).await.as_deref(), Ok(&b"own"[..]));
        return;
    }
    let answering = async |body: &'static str| {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = axum::Router::new().fallback(move || async move { body });
        tokio::spawn(async move { axum::serve(listener, router).await });
        url
    };
    let (issuer, proxy) = (answering("own").await, answering("another").await);
    // The environment of this process cannot be changed safely.
    let mut child = tokio::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "auth::tokens::tests::proxies_of_the_environment_carry_no_keys"]);
    for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"] {
        child.env(name, &proxy);
    }
    let output = child.env(READ_BY_CHILD, issuer).output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"));
}
