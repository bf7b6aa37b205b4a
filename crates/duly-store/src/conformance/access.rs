//! Keys of callers and tenants: changes are ordered, leave an administrator, and stay. The audit log stays too.

use duly_core::{
    Timestamp,
    access::{
        Actions, AdminLogin, ApiKey, KeyId, NamespacePattern, PresentedKey, Role, Tenant,
        TenantLimit, TenantLimits, TenantName,
    },
};

use super::{CaseResult, Harness, Restart, scene::Scene};
use crate::{AccessChange, AccessRecords, AuditEntry, AuditId, ChangeOrigin, Error, Store};

fn key(digit: u8, actions: Actions) -> Box<ApiKey> {
    let presented = PresentedKey::new(KeyId::generate([digit; 10]), [digit; 32]);
    let rights = (actions, vec![NamespacePattern::all()]);
    let created = (Timestamp::saturating_from_unix_ms(1_800_000_000_000), "offline".to_owned());
    Box::new(ApiKey::new(&presented, format!("key {digit}"), rights, created))
}

fn tenant(name: &str, pattern: &str) -> Box<Tenant> {
    Box::new(Tenant {
        name: TenantName::new(name).expect("a name"),
        namespaces: vec![NamespacePattern::new(pattern).expect("a pattern")],
        limits: TenantLimits::default().with(TenantLimit::MaxPending, Some(5)),
        implicit_namespaces: true,
        destinations: None,
    })
}

async fn change(
    store: &dyn Store,
    seen: u64,
    change: AccessChange,
) -> Result<Option<AccessRecords>, Error> {
    store.change_access(seen, change, ChangeOrigin::Call(AdminLogin::ANY)).await
}

async fn records(store: &dyn Store) -> AccessRecords {
    store.read_access(u64::MAX).await.expect("a read").expect("the version is another one")
}

pub(super) async fn p10_keys_change_in_one_order(harness: &dyn Harness) -> CaseResult {
    let store = harness.store();
    assert_eq!(records(&*store).await, AccessRecords::default());
    let admin = key(1, Actions::all());
    let producer = key(2, Role::Producer.actions());
    let put = |key: &ApiKey| AccessChange::Put(Box::new(key.clone()));
    let refused = change(&*store, 0, put(&producer)).await;
    assert!(matches!(refused, Err(Error::Invalid(_))), "without an administrator: {refused:?}");
    let first = change(&*store, 0, put(&admin)).await.expect("taken").expect("nothing came first");
    assert_eq!((first.version > 0, first.keys.len()), (true, 1));
    assert_eq!(change(&*store, 0, put(&producer)).await, Ok(None), "another change came first");
    let second = change(&*store, first.version, put(&producer)).await;
    let second = second.expect("taken").expect("the newest");
    assert_eq!(second.keys[&producer.id], *producer);
    assert!(second.version > first.version);
    assert_eq!(store.read_access(second.version).await, Ok(None), "the version is known");
    assert_eq!(store.read_access(first.version).await, Ok(Some(second.clone())));
    let last = change(&*store, second.version, AccessChange::Delete(admin.id.clone())).await;
    assert!(matches!(last, Err(Error::Invalid(_))), "the last administrator stays: {last:?}");
    assert_eq!(records(&*store).await, second, "a refused change changes nothing");
    let acme = AccessChange::PutTenant(tenant("acme", "acme-*"));
    let with = change(&*store, second.version, acme).await.expect("taken").expect("the newest");
    assert_eq!(with.tenants.len(), 1);
    let other = change(&*store, with.version, AccessChange::PutTenant(tenant("b", "a*"))).await;
    assert!(matches!(other, Err(Error::Invalid(_))), "a namespace has one tenant: {other:?}");
    assert_eq!(records(&*store).await, with);
    let offline = AccessChange::Delete(admin.id.clone());
    let third = store.change_access(with.version, offline, ChangeOrigin::Offline).await;
    let third = third.expect("taken").expect("the newest");
    assert!(!third.keys.contains_key(&admin.id));
    assert_eq!(records(&*store).await, third);
    CaseResult::Whole
}

pub(super) async fn p1_keys_are_there_after_a_kill(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    let (admin, removed) = (key(1, Actions::all()), key(2, Role::Consumer.actions()));
    let puts = [admin.clone(), removed.clone()].map(AccessChange::Put);
    let (kept, deleted) = (tenant("acme", "acme-*"), tenant("b", "b-*"));
    let changes = puts.into_iter().chain([
        AccessChange::Delete(removed.id.clone()),
        AccessChange::PutTenant(kept.clone()),
        AccessChange::PutTenant(deleted.clone()),
        AccessChange::DeleteTenant(deleted.name.clone()),
    ]);
    let mut newest = AccessRecords::default();
    for next in changes {
        let changed = change(&*harness.store(), newest.version, next).await;
        newest = changed.expect("taken").expect("the newest");
    }
    for how in [Restart::Kill, Restart::Clean] {
        if !scene.restart(how).await {
            return CaseResult::NotDurable;
        }
        let found = records(&*harness.store()).await;
        assert_eq!(found, newest, "{how:?}");
        assert_eq!((found.keys.len(), &found.keys[&admin.id]), (1, &*admin));
        assert_eq!((found.tenants.len(), &found.tenants[&kept.name]), (1, &*kept));
    }
    CaseResult::Whole
}

pub(super) async fn p1_the_audit_log_is_there_after_a_kill(harness: &dyn Harness) -> CaseResult {
    let scene = Scene::new(harness).await;
    let now = harness.now().unix_ms();
    let entry = |number: u64| AuditEntry {
        id: AuditId::new(Timestamp::saturating_from_unix_ms(now + number / 2), number),
        line: format!(r#"{{"n":{number}}}"#),
    };
    let store = harness.store();
    let Some(log) = store.audit() else { return CaseResult::NoAuditLog };
    assert_eq!(log.read_audit(None, 10).await, Ok(Vec::new()));
    log.append_audit((0..5).map(entry).collect()).await.expect("they are added");
    log.append_audit((3..8).map(entry).collect()).await.expect("some are there already");
    drop(store);
    for how in [Restart::Kill, Restart::Clean] {
        let store = harness.store();
        let log = store.audit().expect("an audit log");
        let page = log.read_audit(None, 3).await.expect("a page");
        assert_eq!(page, [entry(7), entry(6), entry(5)]);
        let page = log.read_audit(Some(entry(5).id), 100).await.expect("a page");
        assert_eq!(page, [entry(4), entry(3), entry(2), entry(1), entry(0)]);
        // An open store keeps the lock of its directory.
        drop(store);
        if !scene.restart(how).await {
            return CaseResult::NotDurable;
        }
    }
    CaseResult::Whole
}

pub(super) async fn p1_a_flood_displaces_no_audit_entries_of_others(
    harness: &dyn Harness,
) -> CaseResult {
    let scene = Scene::new(harness).await;
    let now = harness.now();
    let entry = |key: &str, number: u64| AuditEntry {
        id: AuditId::new(now, number),
        line: format!(r#"{{"key":"{key}","n":{number}}}"#),
    };
    let admin: Vec<_> = (0..5).map(|number| entry("admin", number)).collect();
    let flood: Vec<_> = (5..12_500).map(|number| entry("weak", number)).collect();
    let store = harness.store();
    let Some(log) = store.audit() else { return CaseResult::NoAuditLog };
    assert_eq!(log.append_audit(admin.clone()).await, Ok(0));
    let displaced = log.append_audit(flood.clone()).await.expect("they are added");
    drop(store);
    if !scene.restart(Restart::Kill).await {
        return CaseResult::NotDurable;
    }
    let store = harness.store();
    let log = store.audit().expect("an audit log");
    let mut kept = log.read_audit(None, 20_000).await.expect("a page");
    kept.reverse();
    assert_eq!(kept.len() + displaced, admin.len() + flood.len(), "each lost entry is counted");
    assert!(displaced >= 1_000, "{displaced}");
    let (first, rest) = kept.split_at(admin.len());
    assert!(first == admin && flood.ends_with(rest), "only the oldest of the flood are lost");
    CaseResult::Whole
}
