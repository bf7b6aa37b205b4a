use super::*;

#[test]
fn defaults_pass_their_own_check() {
    assert!(Settings::default().check().is_ok());
}

#[test]
fn refused_settings_name_their_field() {
    let check = |change: fn(&mut Settings), field: &str| {
        let mut settings = Settings::default();
        change(&mut settings);
        assert_eq!(settings.check().unwrap_err().field, field);
    };
    check(|s| s.lease = Millis::from_ms(999), "lease");
    check(|s| s.lease = Millis::from_secs(43_201), "lease");
    check(|s| s.retention = Millis::MAX, "retention");
    check(|s| s.weight = 0, "weight");
    check(|s| s.limits.max_in_flight = 0, "limits.lane.max_in_flight");
    check(|s| s.limits.max_payload_bytes = 1 << 40, "limits.namespace.max_payload_bytes");
    check(|s| s.limits.max_dead = 0, "limits.namespace.max_dead");
    check(|s| s.limits.schedule_per_second = Some(0), "limits.namespace.schedule_per_second");
}

#[test]
fn secrets_are_never_printed() {
    let text = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let secret = SigningSecret::new(text).unwrap();
    assert!(!format!("{secret:?}").contains("MfKQ"));
    assert_eq!(secret.reveal(), text);
    for bad in ["", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_", "whsec_AAAA", "whsec_!!"] {
        let invalid = SigningSecret::new(bad).unwrap_err();
        assert!(invalid.seen.is_none(), "{bad}");
    }
}
