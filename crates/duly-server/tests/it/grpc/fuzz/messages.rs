//! The messages to damage: a valid one of every method of the `.proto` files.

use std::collections::BTreeSet;

use duly_api::v1;
use prost::Message as _;
use prost_types::FileDescriptorSet;

use super::super::server::{ack, at, lasting, named};

/// The message of a method.
pub(super) struct Message {
    pub(super) path: &'static str,
    pub(super) bytes: Vec<u8>,
    pub(super) is_stream: bool,
}

fn message(path: &'static str, message: &impl prost::Message) -> Message {
    Message { path, bytes: message.encode_to_vec(), is_stream: false }
}

fn schedule() -> v1::Schedule {
    // No receiver is called: the URL is on this machine, due in an hour, and no program listens there.
    let http = v1::HttpDestination {
        url: "http://127.0.0.1:9/x".into(),
        method: Some("PUT".into()),
        timeout: Some(lasting(3_000)),
        ..v1::HttpDestination::default()
    };
    v1::Schedule {
        payload: Some((&b"{\"a\":[1]}"[..]).into()),
        headers: vec![v1::Header { name: "x-a".into(), value: "b".into() }],
        tags: vec!["red".into()],
        slot_key: Some("k".into()),
        destination: Some(v1::Destination { pull: None, http: Some(http) }),
        retry: Some(retry()),
        expire_after: Some(lasting(7_200_000)),
        if_exists: v1::IfExists::Keep.into(),
        ..named("n")
    }
}

fn retry() -> v1::Retry {
    v1::Retry { max_attempts: Some(3), jitter: Some(0.5), ..v1::Retry::default() }
}

fn reschedule() -> v1::Reschedule {
    v1::Reschedule {
        id: "t".into(),
        delay: Some(lasting(7_200_000)),
        tags: Some(v1::TagList { tags: vec!["blue".into()] }),
        reset: vec![v1::TimerField::Payload.into()],
        if_revision: Some(1),
        ..v1::Reschedule::default()
    }
}

/// Returns one message of each method, about this namespace and its timer `t`.
pub(super) fn messages(namespace: &str) -> Vec<Message> {
    let mut all = timers(namespace.into());
    all.extend(many(namespace.into()));
    all.extend(namespaces(namespace.into()));
    all.push(message("/duly.v1.Cluster/Get", &v1::GetClusterRequest {}));
    all.push(message("/duly.v1.Cluster/Whoami", &v1::WhoamiRequest {}));
    all
}

fn timers(namespace: String) -> Vec<Message> {
    let namespace = || namespace.clone();
    let cancel =
        v1::Cancel { id: "t".into(), if_revision: Some(1), no_further_attempt: Some(true) };
    let fire = v1::Fire { id: "t".into() };
    let none = v1::Operation::default;
    let text = v1::Schedule {
        id: Some("text".into()),
        due_at: Some(at(4_102_444_800, 5_000_000)),
        delay: None,
        payload: None,
        payload_text: Some("x".into()),
        ..schedule()
    };
    let bytes = v1::Reschedule {
        payload_base64: Some("x".into()),
        reset: Vec::new(),
        if_revision: None,
        ..reschedule()
    };
    let operations = vec![
        v1::Operation { schedule: Some(schedule().into()), ..none() },
        v1::Operation { schedule: Some(text.into()), ..none() },
        v1::Operation { reschedule: Some(bytes.into()), ..none() },
        v1::Operation {
            cancel: Some(v1::Cancel { id: "none".into(), ..v1::Cancel::default() }),
            ..none()
        },
        v1::Operation { fire: Some(fire.clone()), ..none() },
    ];
    let retry = v1::RetryVerdict { after: Some(lasting(5_000)), reason: Some("x".into()) };
    let settlements = vec![
        v1::Settlement { token: "AAAA".into(), retry: Some(retry), ..v1::Settlement::default() },
        ack("BBBB"),
    ];
    let lease = v1::LeaseRequest {
        namespace: namespace(),
        max: Some(2),
        max_bytes: Some(100),
        lease: Some(lasting(3_600_000)),
        wait: None,
    };
    let list = v1::ListRequest {
        namespace: namespace(),
        state: v1::State::Scheduled.into(),
        due_from: Some(at(7, 5_000_000)),
        due_to: Some(at(4_102_444_800, 5_000_000)),
        id_prefix: Some("t".into()),
        tag: Some("red".into()),
        limit: Some(5),
        cursor: None,
        view: v1::View::Summary.into(),
    };
    let consume = v1::ConsumeRequest {
        open: Some(v1::ConsumeOpen { namespace: namespace(), lease: Some(lasting(3_600_000)) }),
        credits: 1,
        settlements: settlements.clone(),
    };
    let next = v1::LeaseRequest { namespace: String::new(), ..lease.clone() };
    let settle = v1::SettleRequest { namespace: namespace(), settlements, lease: Some(next) };
    let schedule = v1::ScheduleRequest { namespace: namespace(), schedule: Some(schedule()) };
    let reschedule =
        v1::RescheduleRequest { namespace: namespace(), reschedule: Some(reschedule()) };
    let cancel = v1::CancelRequest { namespace: namespace(), cancel: Some(cancel) };
    let fire = v1::FireRequest { namespace: namespace(), fire: Some(fire) };
    vec![
        message("/duly.v1.Timers/Schedule", &schedule),
        message("/duly.v1.Timers/Get", &v1::GetRequest { namespace: namespace(), id: "t".into() }),
        message("/duly.v1.Timers/Reschedule", &reschedule),
        message("/duly.v1.Timers/Cancel", &cancel),
        message("/duly.v1.Timers/Fire", &fire),
        message("/duly.v1.Timers/List", &list),
        message("/duly.v1.Timers/Batch", &v1::BatchRequest { namespace: namespace(), operations }),
        message("/duly.v1.Timers/Lease", &lease),
        message("/duly.v1.Timers/Settle", &settle),
        Message { is_stream: true, ..message("/duly.v1.Timers/Consume", &consume) },
    ]
}

fn many(namespace: String) -> Vec<Message> {
    let namespace = || namespace.clone();
    let at = |seconds| Some(at(seconds, 5_000_000));
    let names = |name: &str| v1::DeadLetterNames { names: vec![name.into(), "none".into()] };
    let filter = v1::CancelFilter {
        tag: Some("none".into()),
        id_prefix: Some("t".into()),
        due_from: at(7),
        due_to: at(4_102_444_800),
        state: v1::State::Scheduled.into(),
    };
    let cancel = v1::CancelManyRequest {
        namespace: namespace(),
        filter: Some(filter),
        all: None,
        limit: Some(5),
        cursor: None,
        dry_run: Some(true),
        no_further_attempt: Some(true),
    };
    let redrive = v1::RedriveRequest {
        namespace: namespace(),
        ids: Some(names("t")),
        delay: Some(lasting(5_000)),
        per_second: Some(2.5),
        ..v1::RedriveRequest::default()
    };
    let purge = v1::PurgeRequest {
        namespace: namespace(),
        delivery_ids: Some(names("AAAA")),
        ..v1::PurgeRequest::default()
    };
    let give_up =
        v1::DeadLetterOverdueRequest { namespace: namespace(), due_by: at(7), cursor: None };
    vec![
        message("/duly.v1.Timers/CancelMany", &cancel),
        message("/duly.v1.Timers/Redrive", &redrive),
        message("/duly.v1.Timers/Purge", &purge),
        message(
            "/duly.v1.Timers/Forget",
            &v1::ForgetRequest { namespace: namespace(), id: "dead".into() },
        ),
        message("/duly.v1.Timers/DeadLetterOverdue", &give_up),
    ]
}

fn namespaces(namespace: String) -> Vec<Message> {
    let namespace = || namespace.clone();
    let settings = v1::NamespaceSettings {
        destination: Some(v1::Destination::pull()),
        retry: Some(retry()),
        lease: Some(lasting(30_000)),
        retention: Some(lasting(86_400_000)),
        weight: Some(3),
        limits: Some(v1::Limits {
            lane: Some(v1::LaneLimits { deliver_per_second: None, max_in_flight: Some(9) }),
            namespace: Some(v1::NamespaceLimits {
                max_pending: Some(9),
                max_dead: Some(9),
                ..v1::NamespaceLimits::default()
            }),
        }),
        ..v1::NamespaceSettings::default()
    };
    let patch = v1::PatchNamespaceRequest {
        namespace: namespace(),
        settings: Some(v1::NamespaceSettings {
            weight: Some(5),
            ..v1::NamespaceSettings::default()
        }),
        reset: vec![v1::NamespaceField::SigningSecrets.into(), v1::NamespaceField::Limits.into()],
    };
    let resume = v1::ResumeRequest { namespace: namespace(), at: Some(at(4_102_444_800, 0)) };
    let repair =
        v1::RepairNamespaceRequest { namespace: namespace(), keep: Some("1.1048577".to_owned()) };
    let forecast = v1::ForecastRequest {
        namespace: namespace(),
        bucket: Some(lasting(60_000)),
        count: Some(3),
    };
    let put = v1::PutNamespaceRequest { namespace: namespace(), settings: Some(settings) };
    vec![
        message("/duly.v1.Namespaces/Put", &put),
        message("/duly.v1.Namespaces/Patch", &patch),
        message("/duly.v1.Namespaces/Get", &v1::GetNamespaceRequest { namespace: namespace() }),
        message(
            "/duly.v1.Namespaces/List",
            &v1::ListNamespacesRequest { limit: Some(5), cursor: None },
        ),
        message(
            "/duly.v1.Namespaces/Delete",
            &v1::DeleteNamespaceRequest { namespace: namespace(), force: true },
        ),
        message("/duly.v1.Namespaces/Pause", &v1::PauseRequest { namespace: namespace() }),
        message("/duly.v1.Namespaces/Resume", &resume),
        message("/duly.v1.Namespaces/Repair", &repair),
        message("/duly.v1.Namespaces/Stats", &v1::StatsRequest { namespace: namespace() }),
        message("/duly.v1.Namespaces/Forecast", &forecast),
    ]
}

/// Returns the paths of all methods that the `.proto` files describe.
pub(super) fn methods() -> BTreeSet<String> {
    let set = FileDescriptorSet::decode(v1::FILE_DESCRIPTOR_SET).unwrap();
    let mut found = BTreeSet::new();
    for file in set.file {
        let package = file.package().to_owned();
        for service in file.service {
            let name = service.name().to_owned();
            found
                .extend(service.method.iter().map(|it| format!("/{package}.{name}/{}", it.name())));
        }
    }
    found
}

#[test]
fn every_method_of_the_proto_files_is_damaged() {
    let known: BTreeSet<_> =
        messages("n").into_iter().map(|message| message.path.to_owned()).collect();
    assert!(known.len() > 15, "{known:?}");
    assert_eq!(known, methods(), "add a message to grpc/fuzz/messages.rs");
}
