//! Tests of options that are refused before anything is started.

use url::Url;

use super::{Floors, Options, Place, Subject, TransportKind, check};
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
        pull: None,
        namespaces: None,
        each: None,
        floors: Floors::Left,
    }
}

const ALL: [Subject; 9] = [
    Subject::Ingest,
    Subject::Lateness,
    Subject::HotSecond,
    Subject::Cancel,
    Subject::Debounce,
    Subject::Mixed,
    Subject::Isolation,
    Subject::Recovery,
    Subject::Namespaces,
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
        "pull" => options.pull = Some(super::Pull::Lease),
        "namespaces" => options.namespaces = Some(1),
        "each" => options.each = Some(1),
        other => panic!("{other}"),
    }
    options
}

#[test]
fn every_option_is_used_or_refused_by_name() {
    let options = ["rate", "timers", "seconds", "batch", "in-flight", "pull", "namespaces", "each"];
    for subject in ALL {
        let name = subject.name();
        for option in options {
            let refused = with(subject, option).ensure_used().err();
            let used = match subject {
                Subject::Ingest | Subject::Cancel | Subject::Debounce | Subject::Recovery => 0..5,
                Subject::Isolation => 0..3,
                Subject::Namespaces => 6..8,
                Subject::Mixed | Subject::Lateness | Subject::HotSecond => continue,
            };
            let is_used = options[used].contains(&option);
            assert_eq!(refused.is_none(), is_used, "{name} --{option}");
            if let Some(refused) = refused {
                assert_eq!(refused.option, option);
                assert!(refused.to_string().contains(name), "{refused}");
            }
        }
    }
    for (subject, unused) in [
        (Subject::Lateness, &["timers", "in-flight", "namespaces", "each"][..]),
        (Subject::HotSecond, &["rate", "seconds", "in-flight", "pull", "namespaces", "each"]),
        (Subject::Mixed, &["timers", "pull", "namespaces", "each"]),
    ] {
        for option in options {
            let refused = with(subject, option).ensure_used().is_err();
            assert_eq!(refused, unused.contains(&option), "{} --{option}", subject.name());
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
    assert!(refused(&long).contains("kept for the judge"));
    let mut small = options(Subject::Mixed);
    small.payload_bytes = 15;
    assert!(refused(&small).contains("16 to 65536 are allowed"));
    let mut elsewhere = options(Subject::Recovery);
    elsewhere.place = Place::At(Url::parse("http://127.0.0.1:1").unwrap(), Owner::Caller);
    assert!(refused(&elsewhere).contains("leave out --server"));
    let mut stream = options(Subject::Lateness);
    stream.pull = Some(super::Pull::Consume);
    assert!(refused(&stream).contains("--transport grpc"));
    stream.transport = TransportKind::Grpc;
    check(&stream).unwrap();
}
