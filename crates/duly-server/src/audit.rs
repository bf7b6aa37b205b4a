//! The audit log: one line of JSON for each change and each refusal.
//!
//! ```text
//!   call ends ──► line ──► queue ──► thread ──► audit.file
//!                   └────► queue ──► task ────► AuditStore::append_audit (what administrators did)
//! ```
//!
//! 1. A line names the key, the address, the operation and the namespace. It has no ids, payloads or secrets.
//! 2. A call that is cancelled has a line too: its change may be made all the same.
//! 3. Queues are bounded. While a line cannot be written they fill, and then lines are dropped and counted.
//!    With `audit.required` the call is refused instead, before it changes anything. A revocation of a key
//!    alone is never refused: its line waits or is lost like others, and the store has its entry. Of callers without a key
//!    only 100 lines a second are written. Lines about calls that changed nothing have a share of each file
//!    (`drops.rs`): they must not push the others out.
//! 4. The store has only what administrators have done, and only if keys are required. Calls that were refused
//!    or not admitted are not there, for the same reason.

mod drops;
mod entries;
mod fault;
mod file;

use std::{
    net::IpAddr,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use duly_api::access::AuditRecord;
use duly_core::{NamespaceName, Timestamp, access::Action};
use duly_store::{AuditEntry, AuditId, Store};
use http::StatusCode;
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};

pub(crate) use self::fault::unwritable;
use self::{
    drops::{DropReason, Line, UnknownCallers, dropped},
    entries::keep,
    fault::SharedFault,
};
use crate::{
    auth::{Caller, Identity},
    operations::{CallKind, Operation, Right},
    problem::Problem,
};

/// Lines that wait for the file.
const LINES_MAX: usize = 65_536;
/// Status of a call whose caller has gone away.
const CANCELLED: u16 = 499;
/// Entries that wait for the store.
const ENTRIES_MAX: usize = 10_000;
/// Longest wait for the last lines at the end.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);

/// Calls that get a line in the audit log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AuditLevel {
    /// Changes, and refusals for want of a valid key or a right.
    #[default]
    Changes,
    /// These refusals.
    Denied,
    /// Every call that needs a key.
    All,
}

/// Options of the audit log.
#[derive(Debug, Clone)]
pub(crate) struct AuditOptions {
    /// The file; `None` for none.
    pub(crate) file: Option<PathBuf>,
    /// Calls that get a line.
    pub(crate) level: AuditLevel,
    /// `true`: a call is refused if its line cannot be queued.
    pub(crate) is_required: bool,
    /// Size at which the file is renamed and a new one begins.
    pub(crate) file_bytes_max: u64,
    /// Files that are kept, with the present one.
    pub(crate) files_max: usize,
}

/// The audit log of a server; cheap to clone.
#[derive(Debug, Clone)]
pub struct Audit(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    level: AuditLevel,
    is_required: bool,
    file: Option<mpsc::Sender<Queued<Line>>>,
    /// The path of the file.
    path: PathBuf,
    /// The error of the last write of the file, until one succeeds.
    fault: SharedFault,
    /// `None`: the store gets nothing.
    entries: Option<mpsc::Sender<Queued<AuditEntry>>>,
    unknown: UnknownCallers,
}

/// A message to the thread of the file, or to the task of the store.
#[derive(Debug)]
enum Queued<T> {
    /// A line or an entry.
    Item(T),
    /// Replies when everything before it is written.
    Flush(oneshot::Sender<()>),
}

impl<T> Queued<T> {
    /// Waits until everything in a queue is written.
    async fn flush(queue: Option<&mpsc::Sender<Self>>) {
        let (reply, done) = oneshot::channel();
        if let Some(queue) = queue
            && queue.send(Self::Flush(reply)).await.is_ok()
        {
            done.await.ok();
        }
    }
}

/// The notes of a call, which the audit log reads when it ends.
pub(crate) type SharedNotes = Arc<Mutex<CallNotes>>;

/// Facts about a call for the audit log: those that were read.
#[derive(Debug, Clone, Default)]
pub(crate) struct CallNotes {
    /// Its namespace.
    pub(crate) namespace: Option<NamespaceName>,
    /// The key that it concerns.
    pub(crate) target: Option<String>,
    /// Timers and verdicts that it named.
    pub(crate) items: u64,
    /// `true`: it changed something, or may have. Only calls about timers note this.
    pub(crate) has_changed: bool,
    /// `true`: the caller may not know of the namespace, or lacks a right to a part of the call.
    pub(crate) is_denied: bool,
    /// `true`: it has no line in the audit log that is required, so it may do nothing but revoke a key.
    pub(crate) may_only_revoke: bool,
}

/// A call as it begins.
pub(crate) struct CallFacts {
    /// `http` or `grpc`.
    pub(crate) protocol: &'static str,
    /// The operation.
    pub(crate) operation: &'static Operation,
    /// The address of the caller.
    pub(crate) address: Option<IpAddr>,
    /// The caller, if it has a key; also if the call is denied.
    pub(crate) identity: Option<Identity>,
    /// `true`: the caller has the right.
    pub(crate) is_admitted: bool,
    /// The time.
    pub(crate) now: Timestamp,
}

/// A call whose end is recorded, also when it is dropped before.
#[derive(Debug)]
pub(crate) struct AuditedCall {
    audit: Audit,
    permit: Option<mpsc::OwnedPermit<Queued<Line>>>,
    /// Without the fields of its end.
    record: AuditRecord,
    notes: SharedNotes,
    now: Timestamp,
    /// `true`: it may change something, or it takes timers with their secrets away.
    has_changed: bool,
    /// `true`: it notes whether it changed something.
    is_about_timers: bool,
    has_line: bool,
    is_administrative: bool,
    is_admitted: bool,
    has_ended: bool,
}

/// A step of a stream.
#[derive(Debug)]
pub(crate) struct StreamStep<'a> {
    /// `http` or `grpc`.
    pub(crate) protocol: &'static str,
    /// The operation.
    pub(crate) operation: &'static Operation,
    /// The namespace, as far as it was read.
    pub(crate) namespace: Option<&'a NamespaceName>,
    /// Timers or verdicts of the step.
    pub(crate) items: u64,
    /// `true`: it changed something, or may have.
    pub(crate) has_changed: bool,
    /// `true`: a part of it was denied.
    pub(crate) is_denied: bool,
    /// `true`: it may have been made, or not.
    pub(crate) is_doubtful: bool,
}

impl Audit {
    /// Returns a log that records nothing.
    pub fn off() -> Self {
        Self(Arc::new(Inner {
            level: AuditLevel::Denied,
            is_required: false,
            file: None,
            path: PathBuf::new(),
            fault: SharedFault::default(),
            entries: None,
            unknown: UnknownCallers::default(),
        }))
    }

    /// Starts the audit log.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub(crate) fn start(options: AuditOptions, store: Arc<dyn Store>) -> std::io::Result<Self> {
        let fault = SharedFault::default();
        let path = options.file.clone().unwrap_or_default();
        let file = match options.file {
            None => None,
            Some(path) => {
                let file = file::AuditFile::open(
                    path,
                    options.file_bytes_max,
                    options.files_max,
                    Arc::clone(&fault),
                )?;
                let (sender, lines) = mpsc::channel(LINES_MAX);
                std::thread::Builder::new()
                    .name("duly-audit".to_owned())
                    .spawn(move || file.run(lines))?;
                Some(sender)
            }
        };
        let entries = store.audit().is_some().then(|| {
            let (entries, queue) = mpsc::channel(ENTRIES_MAX);
            tokio::spawn(keep(queue, store));
            entries
        });
        let (level, is_required) = (options.level, options.is_required);
        let unknown = UnknownCallers::default();
        Ok(Self(Arc::new(Inner { level, is_required, file, path, fault, entries, unknown })))
    }

    /// Begins the record of a call; returns `None` if it gets none. `is_keyed`: the server requires keys.
    ///
    /// # Errors
    /// With `audit.required`, when no line can be written now.
    pub(crate) fn begin(
        &self,
        is_keyed: bool,
        right: Right,
        facts: impl FnOnce() -> CallFacts,
    ) -> Result<Option<AuditedCall>, Problem> {
        let may_be_kept = is_keyed && is_administrative(right) && self.0.entries.is_some();
        if right == Right::Open || self.0.file.is_none() && !may_be_kept {
            return Ok(None);
        }
        let facts = facts();
        let is_change = facts.operation.kind == CallKind::Change;
        let is_administrative = may_be_kept && is_change;
        let is_transfer = right == Right::Needs(Action::Transfer);
        let has_line = match self.0.level {
            AuditLevel::All => true,
            AuditLevel::Changes => is_change || is_transfer,
            AuditLevel::Denied => false,
        };
        let mut notes = CallNotes::default();
        let permit = match &self.0.file {
            Some(file) if self.0.is_required && has_line && facts.is_admitted => {
                let reserved = self
                    .check_writable()
                    .and_then(|()| file.clone().try_reserve_owned().map_err(|_| unwritable()));
                match reserved {
                    Ok(permit) => Some(permit),
                    Err(_) if facts.operation.may_revoke => {
                        notes.may_only_revoke = true;
                        None
                    }
                    Err(problem) => return Err(problem),
                }
            }
            _ => None,
        };
        let (key, subject, origin) = names_of(facts.identity);
        let record = AuditRecord {
            time: facts.now.into(),
            key,
            subject,
            origin,
            address: address_of(facts.address),
            protocol: facts.protocol.to_owned(),
            operation: facts.operation.name.to_owned(),
            action: action_of(right),
            namespace: None,
            target: None,
            items: None,
            outcome: String::new(),
            status: 0,
        };
        Ok(Some(AuditedCall {
            audit: self.clone(),
            permit,
            record,
            notes: Arc::new(Mutex::new(notes)),
            now: facts.now,
            has_changed: is_change || is_transfer,
            is_about_timers: is_change && is_about_timers(right),
            has_line,
            is_administrative,
            is_admitted: facts.is_admitted,
            has_ended: false,
        }))
    }

    /// Records a step of a stream, such as a message with verdicts: its call ends much later.
    pub(crate) fn note_step(&self, caller: &Caller, step: &StreamStep<'_>, now: Timestamp) {
        if self.0.file.is_none() || self.0.level == AuditLevel::Denied && !step.is_denied {
            return;
        }
        let (key, subject, origin) = names_of(caller.identity());
        let (outcome, status) = match step {
            StreamStep { is_denied: true, .. } => ("denied", StatusCode::OK),
            StreamStep { is_doubtful: true, .. } => ("failed", StatusCode::SERVICE_UNAVAILABLE),
            _ => ("ok", StatusCode::OK),
        };
        let record = AuditRecord {
            time: now.into(),
            key,
            subject,
            origin,
            address: address_of(caller.address()),
            protocol: step.protocol.to_owned(),
            operation: step.operation.name.to_owned(),
            action: action_of(step.operation.right),
            namespace: step.namespace.map(ToString::to_string),
            target: None,
            items: Some(step.items).filter(|items| *items > 0),
            outcome: outcome.to_owned(),
            status: status.as_u16(),
        };
        let is_change = step.operation.kind == CallKind::Change;
        self.write(&record, is_change && (step.has_changed || step.is_doubtful), None);
    }

    /// Queues a line for the file, at its reserved place if it has one.
    fn write(
        &self,
        record: &AuditRecord,
        has_changed: bool,
        place: Option<mpsc::OwnedPermit<Queued<Line>>>,
    ) {
        let Some(file) = &self.0.file else { return };
        if record.key.is_none()
            && record.outcome == "denied"
            && !self.0.unknown.admit(Instant::now())
        {
            return dropped("file", DropReason::Stranger, 1);
        }
        let has_share = self.has_share(record, has_changed);
        // Lines about changes need the rest of the queue.
        if has_share && file.capacity() < file.max_capacity() / 2 {
            return dropped("file", DropReason::Share, 1);
        }
        let message = Queued::Item(Line::new(record, has_share));
        match place {
            Some(place) => drop(place.send(message)),
            None if file.try_send(message).is_err() => dropped("file", DropReason::Unwritten, 1),
            None => {}
        }
    }

    /// Returns `true` for the line of a call that changed nothing. With `audit.required` every read is to be recorded.
    fn has_share(&self, record: &AuditRecord, has_changed: bool) -> bool {
        !has_changed && (["refused", "denied"].contains(&&*record.outcome) || !self.0.is_required)
    }

    /// Waits until everything is written.
    pub(crate) async fn flush(&self) {
        let Inner { file, entries, .. } = &*self.0;
        let flushed =
            async { tokio::join!(Queued::flush(file.as_ref()), Queued::flush(entries.as_ref())) };
        // What cannot be written must not stop the end.
        let _in_time = tokio::time::timeout(CLOSE_WITHIN, flushed).await;
    }
}

impl AuditedCall {
    /// Returns the notes, which the call fills in.
    pub(crate) fn notes(&self) -> SharedNotes {
        Arc::clone(&self.notes)
    }

    /// Records the end of the call.
    pub(crate) fn end(mut self, status: StatusCode) {
        self.finish(status);
    }

    fn finish(&mut self, status: StatusCode) {
        self.has_ended = true;
        let notes = std::mem::take(&mut *self.notes.lock());
        // An address that fails too often gets no further lines.
        let is_limited = status == StatusCode::TOO_MANY_REQUESTS && self.record.key.is_none();
        self.has_line &= self.is_admitted || !is_limited;
        let is_refusal = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&status);
        let is_denied = notes.is_denied || is_refusal;
        self.record.namespace = notes.namespace.map(|name| name.to_string());
        self.record.target = notes.target;
        self.record.items = Some(notes.items).filter(|items| *items > 0);
        self.record.status = status.as_u16();
        let is_doubtful = status.is_server_error() || status.as_u16() == CANCELLED;
        self.record.outcome = match () {
            () if is_denied => "denied",
            () if is_doubtful => "failed",
            () if status.is_client_error() => "refused",
            () => "ok",
        }
        .to_owned();
        let is_kept = self.is_administrative && self.is_admitted;
        if is_kept && (is_doubtful || status.as_u16() < 400) {
            let id = AuditId::new(self.now, rand::random());
            let line = serde_json::to_string(&self.record).expect("text and numbers are JSON");
            let message = Queued::Item(AuditEntry { id, line });
            let entries = self.audit.0.entries.as_ref();
            if entries.is_some_and(|entries| entries.try_send(message).is_err()) {
                dropped("store", DropReason::Unwritten, 1);
            }
        }
        let has_succeeded = status.as_u16() < 400 && !is_denied;
        self.has_changed &= match self.is_about_timers {
            true => notes.has_changed || is_doubtful,
            false => has_succeeded || is_doubtful,
        };
        let place = self.permit.take();
        if place.is_some() || self.has_line || is_denied {
            self.audit.write(&self.record, self.has_changed, place);
        }
    }
}

/// A caller that goes away cancels its call.
impl Drop for AuditedCall {
    fn drop(&mut self) {
        if !self.has_ended {
            self.finish(StatusCode::from_u16(CANCELLED).expect("a status"));
        }
    }
}

/// Returns key, subject and origin of a caller.
fn names_of(identity: Option<Identity>) -> (Option<String>, Option<String>, Option<String>) {
    let Some(Identity { key, subject, origin }) = identity else { return (None, None, None) };
    let text = |it: &dyn ToString| it.to_string();
    (Some(text(&key)), subject.map(|it| text(&it)), origin.map(|it| text(&it)))
}

fn address_of(address: Option<IpAddr>) -> Option<String> {
    address.map(|address| address.to_canonical().to_string())
}

/// Returns the name of the action that an operation needs.
fn action_of(right: Right) -> Option<String> {
    match right {
        Right::Needs(action) => Some(action.as_str().to_owned()),
        Right::Open | Right::AnyKey | Right::NeedsAll => None,
    }
}

/// Returns `true` for operations that change nothing but timers, and pauses.
const fn is_about_timers(right: Right) -> bool {
    match right {
        Right::Needs(action) => matches!(
            action,
            Action::Schedule | Action::Consume | Action::Operate | Action::Transfer
        ),
        Right::Open | Right::AnyKey | Right::NeedsAll => false,
    }
}

/// Returns `true` for the operations of administrators.
const fn is_administrative(right: Right) -> bool {
    match right {
        Right::Needs(action) => matches!(
            action,
            Action::Operate | Action::Namespace | Action::Transfer | Action::Store | Action::Keys
        ),
        Right::NeedsAll => true,
        Right::Open | Right::AnyKey => false,
    }
}

#[cfg(test)]
pub(crate) mod tests;
