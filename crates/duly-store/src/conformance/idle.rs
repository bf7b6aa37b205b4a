//! Implicit namespaces that have been idle for a day are removed; scheduled timers are never removed with
//! them.

use std::{collections::BTreeSet, sync::Arc};

use duly_core::{Millis, NamespaceName, Settings, schedule::IfExists};

use super::{
    CaseResult, Harness,
    scene::{Scene, cancel_op, name, schedule_op, secs, settings, timer},
};
use crate::{
    Outcome, Refusal, Store,
    namespaces::{Activity, IDLE_AFTER, Put, Secrets},
};

/// Creates a namespace as a first schedule does. Tombstones are kept for an hour.
async fn make(store: &dyn Store, text: &str) {
    let settings = Settings { retention: secs(3_600), ..settings() };
    let put = Put::IfAbsent(Box::new(settings));
    assert!(store.put_namespace(name(text), put).await.expect("it is made").1);
}

/// Runs one whole pass; returns the removed namespaces.
async fn pass(store: &dyn Store, waited: &[&str]) -> Vec<String> {
    let waited: Arc<BTreeSet<NamespaceName>> =
        Arc::new(waited.iter().map(|text| name(text)).collect());
    let (mut from, mut removed) = (None, Vec::new());
    loop {
        let page = store.remove_idle(from, Arc::clone(&waited)).await.expect("a page");
        removed.extend(page.removed.iter().map(ToString::to_string));
        from = page.next;
        if from.is_none() {
            removed.sort_unstable();
            return removed;
        }
    }
}

async fn is_there(store: &dyn Store, text: &str) -> bool {
    store.get_namespace(name(text)).await.expect("an answer").is_some()
}

const NEARLY: Millis = Millis::from_secs(24 * 3_600 - 1);

pub(super) async fn p10_idle_implicit_namespaces_are_removed(harness: &dyn Harness) -> CaseResult {
    let store = harness.store();
    for text in ["idle", "put-later", "paused-later", "waited"] {
        make(&*store, text).await;
    }
    let put = || Put::Replace { settings: Box::new(settings()), secrets: Secrets::Set };
    for text in ["explicit", "put-later"] {
        store.put_namespace(name(text), put()).await.expect("it is taken");
    }
    store.set_activity(name("paused-later"), Activity::Paused).await.expect("it is paused");
    assert!(pass(&*store, &[]).await.is_empty());
    harness.advance(NEARLY).await;
    assert!(pass(&*store, &["waited"]).await.is_empty());
    harness.advance(secs(1)).await;
    assert_eq!(pass(&*store, &[]).await, ["idle"]);
    harness.advance(IDLE_AFTER).await;
    assert_eq!(pass(&*store, &[]).await, ["waited"], "a day after a lease call waited");
    for text in ["explicit", "put-later", "paused-later"] {
        assert!(is_there(&*store, text).await, "{text}");
    }
    CaseResult::Whole
}

pub(super) async fn p3_p6_a_namespace_that_holds_anything_is_not_idle(
    harness: &dyn Harness,
) -> CaseResult {
    let store = harness.store();
    make(&*store, "shop").await;
    let scene = Scene { harness, namespace: name("shop") };
    assert!(pass(&*store, &[]).await.is_empty());
    // A pending timer, its tombstone, and a timer without any remains since the previous pass.
    scene.create_in("a", secs(3 * 86_400)).await;
    harness.advance(IDLE_AFTER).await;
    assert!(pass(&*store, &[]).await.is_empty(), "a pending timer");
    scene.apply(cancel_op("a")).await;
    harness.advance(secs(3_599)).await;
    assert!(pass(&*store, &[]).await.is_empty(), "a tombstone");
    harness.advance(secs(1)).await;
    assert!(pass(&*store, &[]).await.is_empty(), "it counts from here");
    harness.advance(secs(12 * 3_600)).await;
    scene.create_in("b", secs(3_600)).await;
    scene.apply(cancel_op("b")).await;
    harness.advance(secs(12 * 3_600)).await;
    assert!(pass(&*store, &[]).await.is_empty(), "there was a timer meanwhile");
    scene.bring("dead", duly_core::State::Dead).await;
    harness.advance(IDLE_AFTER).await;
    assert!(pass(&*store, &[]).await.is_empty(), "a dead letter");
    scene.purge(crate::command::DeadLetterId::Timer(super::scene::id("dead"))).await;
    harness.advance(IDLE_AFTER).await;
    assert!(pass(&*store, &[]).await.is_empty(), "it counts from here");
    harness.advance(IDLE_AFTER).await;
    assert_eq!(pass(&*store, &[]).await, ["shop"]);
    CaseResult::Whole
}

pub(super) async fn p1_a_schedule_at_the_moment_of_a_removal_is_not_lost(
    harness: &dyn Harness,
) -> CaseResult {
    let store = harness.store();
    make(&*store, "shop").await;
    let scene = Scene { harness, namespace: name("shop") };
    assert!(pass(&*store, &[]).await.is_empty());
    harness.advance(IDLE_AFTER).await;
    let schedule = schedule_op(timer("a", scene.at(secs(1))), IfExists::Fail);
    let (removed, outcome) = futures::join!(pass(&*store, &[]), scene.apply(schedule.clone()));
    match outcome {
        Outcome::Created(_) => assert!(removed.is_empty(), "it went with a timer in it"),
        Outcome::Refused(Refusal::UnknownNamespace(_)) => {
            // The caller gets this refusal, and creates the namespace again.
            assert_eq!(removed, ["shop"]);
            make(&*store, "shop").await;
            assert!(matches!(scene.apply(schedule).await, Outcome::Created(_)));
        }
        other => panic!("{other:?}"),
    }
    assert!(scene.get("a").await.is_some());
    assert!(pass(&*store, &[]).await.is_empty());
    CaseResult::Whole
}
