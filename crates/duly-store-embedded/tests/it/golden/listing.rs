//! Writes everything in a store as text, field by field, so that a field that is added later does not
//! change a listing of an older format.

use std::fmt::Write;

use duly_core::{
    Destination, NamespaceName, State, Timer, Tombstone, shard::ShardId, timer::Attempt,
};
use duly_store::{
    ListRequest, Namespaces, StoreFuture, TimerView, Timers,
    query::{Body, ListState},
};
use duly_store_embedded::EmbeddedStore;
use futures::FutureExt;

const STATES: [ListState; 4] = [
    ListState::Pending,
    ListState::Only(State::Dead),
    ListState::Only(State::Finished),
    ListState::Only(State::Cancelled),
];

/// Returns the result of an inline store, which is available at once.
pub(super) fn now<T>(answer: StoreFuture<'_, T>) -> T {
    answer.now_or_never().expect("an inline store answers at once").expect("it works")
}

/// Lists all namespaces with all their timers, dead letters and tombstones.
pub(super) fn list(store: &EmbeddedStore) -> String {
    let mut text = String::new();
    for namespace in now(store.list_namespaces(None, 100)) {
        let settings = &namespace.settings;
        let limits = &settings.limits;
        let (name, paused) = (&namespace.name, namespace.paused);
        line(&mut text, format_args!("namespace {name} paused {paused}"));
        let (created, updated) = (namespace.created_at, namespace.updated_at);
        line(&mut text, format_args!("  created {created} updated {updated}"));
        line(&mut text, format_args!("  destination {}", destination(&settings.destination)));
        let (lease, retention) = (settings.lease.ms(), settings.retention.ms());
        line(&mut text, format_args!("  retry {:?}", settings.retry));
        line(&mut text, format_args!("  lease {lease} retention {retention}"));
        let secrets: Vec<_> = settings.signing_secrets.iter().map(|s| s.fingerprint()).collect();
        line(&mut text, format_args!("  weight {} secrets {secrets:?}", settings.weight));
        line(
            &mut text,
            format_args!(
                "  limits {:?} {:?} {} {:?} {} {:?} {} {}",
                limits.schedule_per_second,
                limits.deliver_per_second,
                limits.max_in_flight,
                limits.max_pending,
                limits.max_payload_bytes,
                limits.max_delay.map(|delay| delay.ms()),
                limits.max_dead,
                limits.max_retained
            ),
        );
        let stats = now(store.stats(ShardId(0), name.clone())).expect("it is there");
        line(&mut text, format_args!("  totals {:?}", stats.totals));
        for state in STATES {
            for view in timers(store, name, state) {
                timer_view(&mut text, &view);
            }
        }
        text.push('\n');
    }
    text
}

fn timers(store: &EmbeddedStore, namespace: &NamespaceName, state: ListState) -> Vec<TimerView> {
    let mut request = ListRequest::new(namespace.clone(), state);
    let mut timers = Vec::new();
    loop {
        let page = now(store.list(ShardId(0), request.clone()));
        timers.extend(page.timers);
        match page.next {
            None => return timers,
            next => request.after = next,
        }
    }
}

fn line(text: &mut String, content: std::fmt::Arguments<'_>) {
    writeln!(text, "{content}").expect("a String takes everything");
}

fn destination(destination: &Destination) -> String {
    match destination {
        Destination::Pull => "pull".to_owned(),
        Destination::Http(http) => {
            let headers: Vec<_> = http.headers.iter().collect();
            let (method, timeout) = (http.method.as_str(), http.timeout.ms());
            format!("{method} {} timeout {timeout} headers {headers:?}", http.url())
        }
    }
}

fn timer_view(text: &mut String, view: &TimerView) {
    line(text, format_args!("  {:?} {:?}", view.id(), view.state));
    if let Some(until) = view.leased_until {
        let attempt = view.attempt_under_way;
        line(text, format_args!("    leased until {until} attempt {attempt:?}"));
    }
    if view.stopped {
        line(text, format_args!("    stopped"));
    }
    match &view.body {
        Body::Whole(timer) => whole(text, view.namespace.as_str(), timer),
        Body::Tombstone(tombstone) => self::tombstone(text, tombstone),
    }
}

fn whole(text: &mut String, namespace: &str, timer: &Timer) {
    let (due, created, updated) = (timer.due_at, timer.created_at, timer.updated_at);
    line(text, format_args!("    due {due} created {created} updated {updated}"));
    let (revision, occurrence) = (timer.revision, timer.occurrence);
    line(text, format_args!("    revision {revision} occurrence {occurrence}"));
    let (incarnation, delivery) = (timer.incarnation.0, timer.delivery_id(namespace));
    line(text, format_args!("    incarnation {incarnation:016x} delivery {delivery}"));
    line(text, format_args!("    request {:032x}", timer.request_hash.0));
    let (attempts, budget, unsure) = (timer.attempts, timer.budget_from, timer.maybe_delivered);
    line(text, format_args!("    attempts {attempts} from {budget} maybe delivered {unsure}"));
    if let Some(payload) = &timer.spec.payload {
        let begin = String::from_utf8_lossy(&payload.bytes[..payload.bytes.len().min(40)]);
        let (form, crc) = (payload.form, crc32c(&payload.bytes));
        let bytes = payload.bytes.len();
        line(text, format_args!("    payload {form:?} {bytes} bytes {crc:08x} {begin:?}"));
    }
    if !timer.spec.headers.is_empty() {
        line(text, format_args!("    headers {:?}", timer.spec.headers.iter().collect::<Vec<_>>()));
    }
    if !timer.spec.tags.is_empty() {
        line(text, format_args!("    tags {:?}", timer.spec.tags.as_slice()));
    }
    if let Some(key) = &timer.spec.slot_key {
        line(text, format_args!("    slot key {:?}", key.as_str()));
    }
    if let Some(own) = &timer.spec.destination {
        line(text, format_args!("    destination {}", destination(own)));
    }
    if let Some(retry) = &timer.spec.retry {
        line(text, format_args!("    retry {retry:?}"));
    }
    if let Some(after) = timer.spec.expire_after {
        line(text, format_args!("    expires after {}", after.ms()));
    }
    if let Some(trace) = &timer.spec.trace_parent {
        line(text, format_args!("    trace {trace}"));
    }
    if let Some(at) = timer.next_attempt_at {
        line(text, format_args!("    next attempt {at}"));
    }
    if let Some(at) = timer.fired_at {
        line(text, format_args!("    fired {at}"));
    }
    history(text, &timer.history);
    if let Some(settled) = timer.last_settled {
        line(text, format_args!("    settled {:?} {:016x}", settled.verdict, settled.nonce));
    }
    if let Some(dead_letter) = timer.dead_letter {
        line(text, format_args!("    died {} {}", dead_letter.at, dead_letter.reason.as_str()));
    }
}

fn history(text: &mut String, history: &[Attempt]) {
    for ended in history {
        let (n, at, outcome) = (ended.attempt, ended.at, ended.outcome.as_str());
        line(text, format_args!("    attempt {n} {at} {outcome} {:?}", ended.reason));
    }
}

fn tombstone(text: &mut String, tombstone: &Tombstone) {
    let (ended, due) = (tombstone.ended_at, tombstone.due_at);
    let (attempts, unsure) = (tombstone.attempts, tombstone.maybe_delivered);
    line(text, format_args!("    ended {ended} due {due}"));
    line(text, format_args!("    attempts {attempts} maybe delivered {unsure}"));
    let Some(details) = &tombstone.details else {
        return;
    };
    let (created, updated) = (details.created_at, details.updated_at);
    line(text, format_args!("    created {created} updated {updated}"));
    let (revision, occurrence) = (details.revision, details.occurrence);
    line(text, format_args!("    revision {revision} occurrence {occurrence}"));
    let (incarnation, hash) = (details.incarnation.0, details.request_hash.0);
    line(text, format_args!("    incarnation {incarnation:016x} request {hash:032x}"));
    if let Some(at) = details.fired_at {
        line(text, format_args!("    fired {at}"));
    }
    history(text, &details.history);
    if let Some(settled) = details.settled {
        line(text, format_args!("    settled {:?} {:016x}", settled.verdict, settled.nonce));
    }
}

fn crc32c(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes)
}
