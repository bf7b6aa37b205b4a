use proptest::prelude::*;

use super::*;
use crate::Millis;

const NOW: Timestamp = Timestamp::saturating_from_unix_ms(1_800_000_000_000);

fn presented() -> PresentedKey {
    PresentedKey::new(KeyId::generate([7; 10]), [9; SECRET_BYTES])
}

fn key() -> ApiKey {
    let rights = (Role::Producer.actions(), vec![NamespacePattern::new("orders*").unwrap()]);
    ApiKey::new(&presented(), "orders".to_owned(), rights, (NOW, "offline".to_owned()))
}

#[test]
fn a_key_is_read_as_it_was_printed() {
    let text = presented().reveal();
    assert_eq!(text.len(), 5 + 10 + 1 + 43 + 1 + 8);
    let read: PresentedKey = text.parse().unwrap();
    assert_eq!((read.id.clone(), read.hash()), (presented().id, presented().hash()));
    assert_eq!(read.reveal(), text);
    assert!(!format!("{read:?}").contains(&text[16..59]));
}

proptest! {
    #[test]
    fn a_damaged_key_is_refused_without_being_shown(
        random: [u8; 10], secret: [u8; SECRET_BYTES], at in 0..68_usize, with in any::<char>()
    ) {
        let text = PresentedKey::new(KeyId::generate(random), secret).reveal();
        let mut damaged: Vec<char> = text.chars().collect();
        damaged[at] = with;
        let damaged: String = damaged.into_iter().collect();
        prop_assume!(damaged != text);
        let error = damaged.parse::<PresentedKey>().unwrap_err();
        prop_assert!(error.seen.is_none());
        prop_assert!(text[..at].parse::<PresentedKey>().is_err());
    }

    #[test]
    fn a_pattern_within_another_matches_no_more(
        own in "[ab]{1,3}\\*?", other in "[ab]{0,3}\\*", name in "[ab]{1,4}"
    ) {
        let (own, other) = (NamespacePattern::new(&own).unwrap(), NamespacePattern::new(&other).unwrap());
        if own.is_within(&other) && own.matches(&name) {
            prop_assert!(other.matches(&name));
        }
    }
}

#[test]
fn roles_are_sets_of_actions() {
    let texts = Role::ALL.map(|role| role.actions().to_string());
    assert_eq!(
        texts,
        [
            "schedule, read",
            "consume",
            "read, metrics",
            "schedule, consume, read, payload, operate, namespace, metrics",
            "schedule, consume, read, payload, operate, namespace, transfer, metrics, store, keys",
        ]
    );
    let parsed = Actions::parse(["viewer", "operate"]).unwrap();
    assert_eq!(parsed.to_string(), "read, operate, metrics");
    let error = Actions::parse(["reed"]).unwrap_err().to_string();
    assert!(
        error.contains("reed") && error.contains("read") && error.contains("viewer"),
        "{error}"
    );
}

#[test]
fn patterns_match_names_and_beginnings() {
    for (pattern, name, expected) in [
        ("orders", "orders", true),
        ("orders", "orders-eu", false),
        ("orders*", "orders", true),
        ("orders-*", "orders-eu", true),
        ("orders-*", "Orders-eu", false),
        ("*", "anything", true),
    ] {
        assert_eq!(
            NamespacePattern::new(pattern).unwrap().matches(name),
            expected,
            "{pattern} {name}"
        );
    }
    for refused in ["", "**", "a*b", "-a", "a b", "a**"] {
        assert!(NamespacePattern::new(refused).is_err(), "{refused}");
    }
}

#[test]
fn a_key_admits_its_holder_within_time_and_network() {
    let (hash, later) = (presented().hash(), NOW.saturating_add(Millis::from_secs(60)));
    let admits = |change: fn(&mut ApiKey), address: Option<&str>, now: Timestamp| {
        let mut key = key();
        change(&mut key);
        key.admits(&hash, address.map(|address| address.parse().unwrap()), now)
    };
    assert!(admits(|_| {}, None, NOW));
    assert!(!admits(|key| key.disabled = true, None, NOW));
    assert!(!admits(|key| key.expires_at = Some(NOW), None, NOW));
    assert!(!admits(
        |key| key.not_before = Some(NOW.saturating_add(Millis::from_ms(1))),
        None,
        NOW
    ));
    assert!(!admits(|key| key.secrets.clear(), None, NOW));
    let rotated = |key: &mut ApiKey| {
        let newer = KeySecret { hash: SecretHash([1; 32]), ends_at: None };
        key.secrets[0].ends_at = Some(NOW.saturating_add(Millis::from_secs(60)));
        key.secrets.insert(0, newer);
    };
    assert!(admits(rotated, None, NOW));
    assert!(!admits(rotated, None, later));
    let from_ten = |key: &mut ApiKey| key.networks = vec!["10.0.0.0/8".parse().unwrap()];
    assert!(admits(from_ten, Some("10.1.2.3"), NOW));
    assert!(admits(from_ten, Some("::ffff:10.1.2.3"), NOW));
    assert!(!admits(from_ten, Some("11.1.2.3"), NOW));
    assert!(!admits(from_ten, None, NOW));
    assert!(!key().admits(&SecretHash([0; 32]), None, NOW));
}

#[test]
fn bounds_of_a_key_name_their_field() {
    let check = |change: fn(&mut ApiKey), field: &str| {
        let mut key = key();
        change(&mut key);
        assert_eq!(key.check().unwrap_err().field, field);
    };
    check(|key| key.name.clear(), "name");
    check(|key| "a\nb".clone_into(&mut key.name), "name");
    check(|key| key.actions = Actions::default(), "actions");
    check(|key| key.namespaces.clear(), "namespaces");
    check(|key| (key.not_before, key.expires_at) = (Some(NOW), Some(NOW)), "expires_at");
    assert!(key().check().is_ok());
}

#[test]
fn the_stored_form_is_read_back_and_holds_no_secret() {
    let text = serde_json::to_string(&key()).unwrap();
    assert_eq!(serde_json::from_str::<ApiKey>(&text).unwrap(), key());
    let secret = &presented().reveal()[16..59];
    assert!(!text.contains(secret) && !text.contains("networks"), "{text}");
}

#[test]
fn a_key_within_another_permits_no_more() {
    let later = |seconds| Some(NOW.saturating_add(Millis::from_secs(seconds)));
    let net = |text: &str| vec![text.parse().unwrap()];
    let own = ApiKey { expires_at: later(60), networks: net("10.0.0.0/8"), ..key() };
    let is_within = |change: fn(&mut ApiKey)| {
        let mut key = own.clone();
        change(&mut key);
        key.is_within(&own)
    };
    assert!(is_within(|_| {}));
    assert!(is_within(|key| key.expires_at = Some(NOW)));
    assert!(is_within(|key| key.networks = vec!["10.1.0.0/16".parse().unwrap()]));
    assert!(!is_within(|key| key.expires_at = None));
    assert!(!is_within(|key| key.networks.clear()));
    assert!(!is_within(|key| key.networks.push("11.0.0.0/8".parse().unwrap())));
    assert!(!is_within(|key| key.actions = Actions::all()));
    assert!(!is_within(|key| key.namespaces.push(NamespacePattern::new("*").unwrap())));
    assert!(own.is_within(&key()) && !key().is_within(&own));
}

#[test]
fn only_every_action_everywhere_makes_an_administrator() {
    let is_admin = |actions: Actions, pattern: &str| {
        let namespaces = vec![NamespacePattern::new(pattern).unwrap()];
        ApiKey { actions, namespaces, ..key() }.is_admin()
    };
    assert!(is_admin(Actions::all(), "*"));
    assert!(!is_admin(Actions::all(), "a*"));
    assert!(!is_admin(Role::Operator.actions(), "*"));
}
