//! Tests of options that are refused before anything is started.

use url::Url;

use super::{Baselines, Options, Place, Subject, TransportKind, check};
use crate::guard::Owner;

fn options(subject: Subject) -> Options {
    let own = Place::Own { bin: "duly".into(), dir: None };
    Options {
        subject,
        place: own,
        transport: TransportKind::Http,
        rate: None,
        timers: None,
        seconds: None,
        payload_bytes: 128,
        batch: None,
        in_flight: None,
        delivery: None,
        pending: None,
        cold: false,
        namespaces: None,
        each: None,
        baselines: Baselines::Left,
    }
}

const ALL: [Subject; 15] = [
    Subject::Ingest,
    Subject::Lateness,
    Subject::HotSecond,
    Subject::Cancel,
    Subject::Debounce,
    Subject::Mixed,
    Subject::Isolation,
    Subject::Recovery,
    Subject::Namespaces,
    Subject::Repeat,
    Subject::Reschedule,
    Subject::Size,
    Subject::Lists,
    Subject::DeadLetters,
    Subject::Waiting,
];

/// Returns options of which exactly one is given.
fn with(subject: Subject, option: &str) -> Options {
    let mut options = options(subject);
    match option {
        "rate" => options.rate = Some(1),
        "timers" => options.timers = Some(1),
        "seconds" => options.seconds = Some(1),
        "batch" => options.batch = Some(1),
        "in-flight" => options.in_flight = Some(1),
        "delivery" => options.delivery = Some(super::Delivery::Lease),
        "pending" => options.pending = Some(1),
        "cold" => options.cold = true,
        "namespaces" => options.namespaces = Some(1),
        "each" => options.each = Some(1),
        other => panic!("{other}"),
    }
    options
}

#[test]
fn every_option_is_used_or_refused_by_name() {
    const LOAD: &[&str] = &["rate", "timers", "seconds", "batch", "in-flight", "pending"];
    const CHANGE: &[&str] = &["rate", "timers", "seconds", "batch", "in-flight", "pending", "cold"];
    const OTHERS: [&str; 4] = ["cold", "delivery", "namespaces", "each"];
    for (subject, used) in [
        (Subject::Ingest, LOAD),
        (Subject::Debounce, LOAD),
        (Subject::Cancel, CHANGE),
        (Subject::Repeat, CHANGE),
        (Subject::Reschedule, CHANGE),
        (Subject::Recovery, &LOAD[..5]),
        (Subject::Lateness, &["rate", "seconds", "batch", "delivery", "pending"]),
        (Subject::HotSecond, &["timers", "batch", "delivery", "pending", "cold"]),
        (Subject::Mixed, &["rate", "seconds", "batch", "in-flight"]),
        (Subject::Isolation, &["rate", "timers", "seconds"]),
        (Subject::Namespaces, &["namespaces", "each"]),
        (Subject::Size, &["timers", "seconds"]),
        (Subject::Lists, &["namespaces", "each", "seconds", "batch", "in-flight", "pending"]),
        (Subject::DeadLetters, &["timers", "batch", "pending"]),
        (Subject::Waiting, &["timers", "seconds", "pending"]),
    ] {
        let name = subject.name();
        for option in LOAD.iter().copied().chain(OTHERS) {
            let refused = with(subject, option).ensure_used().err();
            assert_eq!(refused.is_none(), used.contains(&option), "{name} --{option}");
            if let Some(refused) = refused {
                assert_eq!(refused.option, option);
                assert!(refused.to_string().contains(name), "{refused}");
            }
        }
    }
    let mut both = with(Subject::Ingest, "timers");
    both.rate = Some(1);
    assert_eq!(both.ensure_used().unwrap_err().option, "timers");
    both.subject = Subject::Debounce;
    both.ensure_used().unwrap();
}

#[test]
fn option_limits_are_reported() {
    for subject in ALL {
        assert!(check(&options(subject)).unwrap() > 0, "{}", subject.name());
    }
    let refused = |options: &Options| check(options).unwrap_err().to_string();
    let mut long = options(Subject::Mixed);
    long.seconds = Some(3_601);
    assert!(refused(&long).contains("1 to 3600 are allowed"));
    (long.seconds, long.rate) = (Some(3_600), Some(10_000));
    assert!(refused(&long).contains("kept for the checker"));
    let mut small = options(Subject::Mixed);
    small.payload_bytes = 15;
    assert!(refused(&small).contains("16 to 65536 are allowed"));
    let mut elsewhere = options(Subject::Recovery);
    elsewhere.place = Place::At(Url::parse("http://127.0.0.1:1").unwrap(), Owner::Caller);
    assert!(refused(&elsewhere).contains("leave out --server"));
    let mut stream = options(Subject::Lateness);
    stream.delivery = Some(super::Delivery::Consume);
    assert!(refused(&stream).contains("--transport grpc"));
    stream.transport = TransportKind::Grpc;
    check(&stream).unwrap();
    for subject in [Subject::Mixed, Subject::Size, Subject::Lateness] {
        let mut inside = options(subject);
        inside.transport = TransportKind::InProcess;
        inside.delivery = (subject == Subject::Lateness).then_some(super::Delivery::Webhook);
        assert!(refused(&inside).contains("has no server"), "{}", subject.name());
    }
    let mut cold = options(Subject::Cancel);
    cold.cold = true;
    check(&cold).unwrap();
    cold.place = elsewhere.place;
    assert!(refused(&cold).contains("leave out --server"));
}
