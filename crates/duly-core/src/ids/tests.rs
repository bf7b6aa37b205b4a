use super::*;

#[test]
fn namespace_names() {
    for good in ["a", "9", "orders.eu-1_x", &"a".repeat(100)] {
        assert_eq!(NamespaceName::new(good).unwrap().as_str(), good);
    }
    for bad in ["", ".", "-a", "_a", "a b", "a/b", "ä", "a\n", &"a".repeat(101)] {
        let invalid = NamespaceName::new(bad).unwrap_err();
        assert_eq!(
            (invalid.field.as_str(), invalid.allowed.as_str()),
            ("namespace", NAMESPACE_ALLOWED),
            "{bad:?}"
        );
    }
}

/// T5: callers choose ids freely, with underscores, separators and every length.
#[test]
fn t5_timer_ids() {
    for good in ["a", "a:b/c_d%e f", "…", "...", "订单-1", &"x".repeat(256)] {
        assert_eq!(TimerId::new(good).unwrap().as_str(), good);
    }
    for bad in
        ["", ".", "..", "a\0b", "a\u{7f}", "a\u{85}", "\n", &"x".repeat(257), &"é".repeat(129)]
    {
        let invalid = TimerId::new(bad).unwrap_err();
        assert_eq!(
            (invalid.field.as_str(), invalid.allowed.as_str()),
            ("id", TIMER_ID_ALLOWED),
            "{bad:?}"
        );
    }
}

#[test]
fn generated_ids_sort_by_time() {
    let at = |ms| crate::Timestamp::from_unix_ms(ms).unwrap();
    let early = TimerId::generate(at(1_000), [255; 10]);
    let late = TimerId::generate(at(1_001), [0; 10]);
    assert!(early < late);
    assert_eq!(early.as_str().len(), 36);
}
