//! Namespaces: settings, pause, deletion.

use duly_core::{Millis, Settings, namespace::SigningSecret, schedule::IfExists};

use super::{
    CaseResult, Harness, NAMESPACES_MAX,
    scene::{SHARD, Scene, id, name, schedule_op, secs, settings, timer},
};
use crate::{
    Error, Outcome, Refusal, SettleOutcome, SettleVerdict,
    namespaces::{Activity, DeleteMode, Put, Secrets, too_many},
};

fn replace(settings: Settings, secrets: Secrets) -> Put {
    Put::Replace { settings: Box::new(settings), secrets }
}

fn secret(digit: char) -> SigningSecret {
    let text = format!("whsec_{}", digit.to_string().repeat(32));
    SigningSecret::new(&text).expect("base64 of 24 bytes")
}

pub(super) async fn p6_put_makes_then_changes(harness: &dyn Harness) -> CaseResult {
    let store = harness.store();
    assert_eq!(store.get_namespace(name("a")).await, Ok(None));
    let made_at = harness.now();
    let put = replace(settings(), Secrets::Set);
    let (made, new) = store.put_namespace(name("a"), put).await.expect("it is made");
    assert!(new && !made.paused && made.name == name("a"));
    assert_eq!((made.created_at, made.updated_at), (made_at, made_at));
    assert_eq!(*made.settings, settings());
    harness.advance(secs(5)).await;
    let changed = Settings { weight: 7, ..settings() };
    let put = replace(changed.clone(), Secrets::Set);
    let (after, new) = store.put_namespace(name("a"), put).await.expect("it is changed");
    assert!(!new);
    assert_eq!((after.created_at, after.updated_at), (made_at, harness.now()));
    assert_eq!(*after.settings, changed);
    assert_eq!(store.get_namespace(name("a")).await, Ok(Some(after)));
    CaseResult::Whole
}

pub(super) async fn p6_put_if_absent_keeps_an_existing_namespace(
    harness: &dyn Harness,
) -> CaseResult {
    let store = harness.store();
    let absent = |weight| Put::IfAbsent(Box::new(Settings { weight, ..settings() }));
    let (made, new) = store.put_namespace(name("a"), absent(3)).await.expect("an answer");
    assert!(new && made.settings.weight == 3);
    harness.advance(secs(5)).await;
    let (again, new) = store.put_namespace(name("a"), absent(4)).await.expect("an answer");
    assert_eq!((again, new), (made, false));
    CaseResult::Whole
}

pub(super) async fn p6_secrets_stay_when_asked(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    let with = |secrets: Vec<SigningSecret>| Settings { signing_secrets: secrets, ..settings() };
    let put = async |settings, secrets| {
        let put = replace(settings, secrets);
        let answer = scene.store().put_namespace(scene.namespace.clone(), put).await;
        answer.expect("it is taken").0.settings.signing_secrets.clone()
    };
    assert_eq!(put(with(vec![secret('A')]), Secrets::Set).await, [secret('A')]);
    assert_eq!(put(with(vec![]), Secrets::Keep).await, [secret('A')]);
    assert_eq!(put(with(vec![secret('B')]), Secrets::Keep).await, [secret('A')], "ignored");
    scene.create_in("a", Millis::ZERO).await;
    assert_eq!(scene.claim_one().await.settings.signing_secrets, [secret('A')]);
    assert!(put(with(vec![]), Secrets::Set).await.is_empty());
    CaseResult::Whole
}

pub(super) async fn p10_namespaces_are_listed_in_pages(harness: &dyn Harness) -> CaseResult {
    let store = harness.store();
    let mut names = ["b", "A", "a.b", "a", "z", "B-1", "0"];
    for text in names {
        let put = Put::IfAbsent(Box::new(settings()));
        store.put_namespace(name(text), put).await.expect("it is made");
    }
    names.sort_unstable();
    for limit in [1, 3, 100] {
        let (mut after, mut found) = (None, Vec::new());
        for _ in 0..20 {
            let page = store.list_namespaces(after.clone(), limit).await.expect("a page");
            assert!(page.len() <= limit);
            let Some(last) = page.last() else {
                break;
            };
            after = Some(last.name.clone());
            found.extend(page.iter().map(|namespace| namespace.name.to_string()));
        }
        assert_eq!(found, names, "pages of {limit}");
    }
    CaseResult::Whole
}

pub(super) async fn p10_one_namespace_more_than_there_may_be_is_refused(
    harness: &dyn Harness,
) -> CaseResult {
    let store = harness.store();
    let absent = || Put::IfAbsent(Box::new(settings()));
    let numbered = |number: u64| name(&format!("n{number}"));
    for number in 0..NAMESPACES_MAX {
        store.put_namespace(numbered(number), absent()).await.expect("there is room");
    }
    for put in [absent(), replace(settings(), Secrets::Set)] {
        let refused = store.put_namespace(name("more"), put).await;
        assert_eq!(refused, Err(too_many(NAMESPACES_MAX)));
    }
    assert_eq!(store.get_namespace(name("more")).await, Ok(None), "nothing was made");
    // An existing namespace can be changed, and its deletion allows another one.
    let put = replace(Settings { weight: 7, ..settings() }, Secrets::Set);
    let (_, new) = store.put_namespace(numbered(0), put).await.expect("it is changed");
    assert!(!new);
    assert!(!store.put_namespace(numbered(1), absent()).await.expect("it is there").1);
    assert_eq!(store.delete_namespace(numbered(0), DeleteMode::IfEmpty).await, Ok(()));
    let (_, new) = store.put_namespace(name("more"), absent()).await.expect("there is room");
    assert!(new);
    CaseResult::Whole
}

pub(super) async fn p3_a_namespace_with_timers_is_not_deleted_unforced(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    let delete = async |mode| scene.store().delete_namespace(scene.namespace.clone(), mode).await;
    let not_empty = |pending, dead| {
        let name = "shop".to_owned();
        Err(Error::NamespaceNotEmpty { name, pending, dead })
    };
    scene.bring("d", duly_core::State::Dead).await;
    scene.create_in("p", secs(60)).await;
    assert_eq!(delete(DeleteMode::IfEmpty).await, not_empty(1, 1));
    scene.apply(super::scene::cancel_op("p")).await;
    assert_eq!(delete(DeleteMode::IfEmpty).await, not_empty(0, 1));
    scene.purge(crate::command::DeadLetterId::Timer(id("d"))).await;
    assert_eq!(delete(DeleteMode::IfEmpty).await, Ok(()), "tombstones do not hold it");
    let gone = delete(DeleteMode::IfEmpty).await;
    assert_eq!(gone, Err(Error::UnknownNamespace("shop".to_owned())));
    CaseResult::Whole
}

pub(super) async fn p4_t4_a_namespace_made_again_is_empty(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    scene.bring("finished", duly_core::State::Finished).await;
    scene.bring("dead", duly_core::State::Dead).await;
    scene.bring("scheduled", duly_core::State::Scheduled).await;
    let (_, held) = scene.bring("held", duly_core::State::InFlight).await;
    let held = held.expect("it is leased");
    scene.create_in("due", Millis::ZERO).await;
    let delete = scene.store().delete_namespace(scene.namespace.clone(), DeleteMode::Force).await;
    assert_eq!(delete, Ok(()));
    assert!(scene.claim().await.is_empty());
    let command = schedule_op(timer("x", scene.at(secs(1))), IfExists::Fail);
    let outcome = scene.apply(command).await;
    assert_eq!(outcome, Outcome::Refused(Refusal::UnknownNamespace(name("shop"))));
    scene.put(settings()).await;
    for text in ["finished", "dead", "scheduled", "held", "due"] {
        assert_eq!(scene.get(text).await, None, "{text}");
    }
    assert_eq!(scene.stats().await, crate::Stats::default(), "counts start at nothing");
    let outcome = scene.settle(&held, SettleVerdict::Ack).await;
    let lost = [SettleOutcome::LeaseLost, SettleOutcome::InvalidToken].contains(&outcome);
    assert!(lost, "an old token does nothing: {outcome:?}");
    scene.advance(secs(2 * 3_600)).await;
    assert!(scene.claim().await.is_empty(), "the old timers do not fire");
    scene.create_in("held", Millis::ZERO).await;
    assert_eq!(scene.claim_one().await.attempt, 1);
    CaseResult::Whole
}

pub(super) async fn p10_calls_on_unknown_namespaces_are_refused(
    harness: &dyn Harness,
) -> CaseResult {
    let store = harness.store();
    let unknown = || Error::UnknownNamespace("nowhere".to_owned());
    let paused = store.set_activity(name("nowhere"), Activity::Paused).await;
    assert_eq!(paused, Err(unknown()));
    let deleted = store.delete_namespace(name("nowhere"), DeleteMode::Force).await;
    assert_eq!(deleted, Err(unknown()));
    assert_eq!(store.stats(SHARD, name("nowhere")).await, Ok(None));
    assert_eq!(store.get(SHARD, name("nowhere"), id("a"), u64::MAX).await, Ok(None));
    assert_eq!(store.list_namespaces(None, 10).await, Ok(vec![]));
    CaseResult::Whole
}

pub(super) async fn p4_a_lease_taken_before_a_pause_can_be_settled(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    let (_, held) = scene.bring("a", duly_core::State::InFlight).await;
    scene.set_activity(Activity::Paused).await;
    scene.settled(&held.expect("it is leased"), SettleVerdict::Ack).await;
    assert_eq!(scene.stats().await.totals.delivered, 1);
    CaseResult::Whole
}

pub(super) async fn p6_settings_apply_to_pending_timers(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    scene.create_in("a", Millis::ZERO).await;
    let retry = duly_core::RetryPolicy::Delays(vec![secs(77)]);
    scene.put(Settings { retry, lease: secs(45), ..settings() }).await;
    let firing = scene.claim_one().await;
    assert_eq!(firing.leased_until, Some(scene.now().saturating_add(secs(45))));
    let verdict = super::scene::failed(
        duly_core::timer::Wait::Policy,
        duly_core::timer::AttemptOutcome::Failed,
    );
    scene.settled(&firing, verdict).await;
    let view = scene.view("a").await;
    let next = view.timer().and_then(|timer| timer.next_attempt_at);
    assert_eq!(next, Some(scene.now().saturating_add(secs(77))));
    CaseResult::Whole
}

pub(super) async fn p2_something_claimable_wakes_the_waiting(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    let mut wakeups = scene.store().wakeups(SHARD);
    // Longer than a lost signal may take; the test waits this long only if the signal is lost.
    let patience = std::time::Duration::from_secs(1);
    wakeups.mark_unchanged();
    scene.create_in("a", Millis::ZERO).await;
    let signal = tokio::time::timeout(patience, wakeups.changed()).await;
    assert!(matches!(signal, Ok(Ok(()))), "a due timer is signalled");
    let firing = scene.claim_one().await;
    wakeups.mark_unchanged();
    scene.settled(&firing, SettleVerdict::Release).await;
    let signal = tokio::time::timeout(patience, wakeups.changed()).await;
    assert!(matches!(signal, Ok(Ok(()))), "a firing handed back is signalled");
    scene.set_activity(Activity::Paused).await;
    wakeups.mark_unchanged();
    scene.set_activity(Activity::Running).await;
    let signal = tokio::time::timeout(patience, wakeups.changed()).await;
    assert!(matches!(signal, Ok(Ok(()))), "a resumed namespace is signalled");
    CaseResult::Whole
}
