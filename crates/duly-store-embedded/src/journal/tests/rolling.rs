//! A store whose timers leave nothing behind, so that every roll could drop all segments before it.

use std::sync::Arc;

use duly_core::{
    Millis, NamespaceName, Payload, Schedule, Settings, TimerId,
    payload::Form,
    schedule::{IfExists, When},
    shard::ShardId,
};
use duly_store::{
    Command, Namespaces, Operation, Timers,
    command::Answer,
    conformance::ManualClock,
    namespaces::{Put, Secrets},
};
use futures::FutureExt;

use crate::{
    EmbeddedStore, OpenError, Options,
    disk::{Fault, SimDisk},
    options::SEGMENT_BYTES_MIN,
};

fn name() -> NamespaceName {
    NamespaceName::new("shop").expect("a name")
}

fn open(disk: &SimDisk) -> Result<EmbeddedStore, OpenError> {
    let options = Options {
        segment_bytes: SEGMENT_BYTES_MIN,
        min_free_bytes: Some(0),
        min_free_percent: 0,
        random_seed: Some(1),
        ..Options::default()
    };
    EmbeddedStore::open_inline(Arc::new(disk.clone()), options, Arc::new(ManualClock::default()))
}

fn has_namespace(store: &EmbeddedStore) -> bool {
    let found = store.get_namespace(name()).now_or_never().expect("at once").expect("it works");
    found.is_some_and(|namespace| namespace.settings.retention == Millis::ZERO)
}

/// Returns `true` if the namespace was acknowledged.
fn run(disk: &SimDisk) -> bool {
    let Ok(store) = open(disk) else {
        return false;
    };
    let settings = Settings { retention: Millis::ZERO, ..Settings::default() };
    let put = Put::Replace { settings: Box::new(settings), secrets: Secrets::Set };
    let answer = store.put_namespace(name(), put).now_or_never().expect("at once");
    let acknowledged = answer.is_ok();
    for n in 0..12 {
        let id = TimerId::new(&n.to_string()).expect("an id");
        let mut schedule = Schedule::new(id.clone(), When::After(Millis::from_secs(60)));
        let bytes = vec![0; 30_000].into();
        schedule.spec.payload = Some(Payload { form: Form::Binary, bytes });
        let schedule = Box::new(schedule);
        for operation in [
            Operation::Schedule { schedule, if_exists: IfExists::Fail },
            Operation::Cancel { id, if_revision: None },
        ] {
            let command = Command { namespace: name(), operation, answer: Answer::Brief };
            drop(store.apply(ShardId(0), vec![command]).now_or_never());
        }
    }
    acknowledged
}

/// P1: a roll that drops everything before it leaves the namespaces' settings durable, wherever the
/// power fails.
#[test]
fn p1_namespaces_survive_a_power_cut_in_a_roll_that_drops_all() {
    let mut acknowledged_cuts = 0;
    for cut in 1..80 {
        let disk = SimDisk::new(cut);
        disk.plan(Fault::CrashAtOp(cut));
        let acknowledged = run(&disk);
        acknowledged_cuts += u32::from(acknowledged && disk.is_down());
        let found = open(&disk.crash()).expect("it opens");
        if acknowledged {
            assert!(has_namespace(&found), "lost by a cut at operation {cut}");
        }
    }
    assert!(acknowledged_cuts > 10, "{acknowledged_cuts} cuts came after the answer");
}
