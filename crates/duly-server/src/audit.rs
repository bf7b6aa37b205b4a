//! The audit log: one line of JSON for each change and each refusal.
//!
//! ```text
//!   call ends ──► line ──► queue ──► thread ──► audit.file
//!                   └────► queue ──► task ────► Store::append_audit (what administrators did)
//! ```
//!
//! 1. A line names the key, the address, the operation and the namespace. It has no ids, payloads or secrets.
//! 2. Queues are bounded. While a line cannot be written they fill, and then lines are dropped and counted.
//!    With `audit.required` the call is refused instead, before it changes anything.
//! 3. The store has only what administrators have done, and only if keys are required. Refused calls are not
//!    there: they must not push the others out.

mod file;

use std::{
    net::IpAddr,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use duly_api::access::AuditRecord;
use duly_core::{
    Code, NamespaceName, Timestamp,
    access::{Action, KeyId},
    metric_names as names,
};
use duly_store::{AuditEntry, AuditId, Store};
use http::StatusCode;
use metrics::counter;
use tokio::sync::{mpsc, oneshot};

use crate::{
    auth::{Caller, Rule},
    call::CallNotes,
    config::AuditLevel,
    problem::Problem,
};

/// Lines that wait for the file.
const LINES_MAX: usize = 65_536;
/// Entries that wait for the store.
const ENTRIES_MAX: usize = 10_000;
/// Time in which entries are gathered before they are written to the store.
const GATHER: Duration = Duration::from_millis(200);
/// Time until entries that could not be written are tried again.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Longest wait for the last lines at the end.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);

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
    file: Option<mpsc::Sender<FileMessage>>,
    /// `false` while the file cannot be written.
    is_writable: Arc<AtomicBool>,
    /// `None`: the store gets nothing.
    entries: Option<mpsc::Sender<AuditEntry>>,
}

/// A message to the thread of the file.
#[derive(Debug)]
enum FileMessage {
    Line(Vec<u8>),
    /// Replies when everything before it is written.
    Flush(oneshot::Sender<()>),
}

/// A call as it begins.
pub(crate) struct CallFacts {
    /// `http` or `grpc`.
    pub(crate) protocol: &'static str,
    /// Method and route, or the method of gRPC.
    pub(crate) operation: String,
    /// The right that it needs.
    pub(crate) rule: Rule,
    /// `true`: it may change something.
    pub(crate) is_change: bool,
    /// The address of the caller.
    pub(crate) address: Option<IpAddr>,
    /// The time.
    pub(crate) now: Timestamp,
}

/// A call whose end is recorded.
#[derive(Debug)]
pub(crate) struct AuditedCall {
    audit: Audit,
    permit: Option<mpsc::OwnedPermit<FileMessage>>,
    record: AuditRecord,
    now: Timestamp,
    is_change: bool,
    is_administrative: bool,
}

impl Audit {
    /// Returns a log that records nothing.
    pub fn off() -> Self {
        Self(Arc::new(Inner {
            level: AuditLevel::Denied,
            is_required: false,
            file: None,
            is_writable: Arc::default(),
            entries: None,
        }))
    }

    /// Starts the audit log.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub(crate) fn start(options: AuditOptions, store: Arc<dyn Store>) -> std::io::Result<Self> {
        let is_writable = Arc::new(AtomicBool::new(true));
        let file = match options.file {
            None => None,
            Some(path) => {
                let file = file::AuditFile::open(
                    path,
                    options.file_bytes_max,
                    options.files_max,
                    Arc::clone(&is_writable),
                )?;
                let (sender, lines) = mpsc::channel(LINES_MAX);
                std::thread::Builder::new()
                    .name("duly-audit".to_owned())
                    .spawn(move || file.run(lines))?;
                Some(sender)
            }
        };
        let (entries, queue) = mpsc::channel(ENTRIES_MAX);
        tokio::spawn(keep(queue, store));
        let (level, is_required) = (options.level, options.is_required);
        Ok(Self(Arc::new(Inner { level, is_required, file, is_writable, entries: Some(entries) })))
    }

    /// Begins the record of a call; returns `None` if it gets none. `is_keyed`: the server requires keys.
    ///
    /// # Errors
    /// With `audit.required`, when no line can be written now.
    pub(crate) fn begin(
        &self,
        is_keyed: bool,
        facts: impl FnOnce() -> CallFacts,
    ) -> Result<Option<AuditedCall>, Problem> {
        if self.0.file.is_none() && !is_keyed {
            return Ok(None);
        }
        let facts = facts();
        let is_administrative = is_keyed && facts.is_change && is_administrative(facts.rule);
        if facts.rule == Rule::Open || self.0.file.is_none() && !is_administrative {
            return Ok(None);
        }
        let is_transfer = facts.rule == Rule::Needs(Action::Transfer);
        let has_line = match self.0.level {
            AuditLevel::All => true,
            AuditLevel::Changes => facts.is_change || is_transfer,
            AuditLevel::Denied => false,
        };
        let permit = match &self.0.file {
            Some(file) if self.0.is_required && has_line => {
                let permit = Some(self.0.is_writable.load(Ordering::Acquire));
                let permit = permit.filter(|is_writable| *is_writable);
                let permit = permit.and_then(|_| file.clone().try_reserve_owned().ok());
                Some(permit.ok_or_else(unwritable)?)
            }
            _ => None,
        };
        let action = match facts.rule {
            Rule::Needs(action) => Some(action.as_str().to_owned()),
            Rule::Open | Rule::AnyKey | Rule::NeedsAll => None,
        };
        let record = AuditRecord {
            time: facts.now.into(),
            key: None,
            address: address_of(facts.address),
            protocol: facts.protocol.to_owned(),
            operation: facts.operation,
            action,
            namespace: None,
            items: None,
            outcome: String::new(),
            status: 0,
        };
        let audit = self.clone();
        let (now, is_change) = (facts.now, has_line);
        Ok(Some(AuditedCall { audit, permit, record, now, is_change, is_administrative }))
    }

    /// Records a step of a stream, such as a message with verdicts: its call ends much later.
    pub(crate) fn note_step(
        &self,
        caller: &Caller,
        [protocol, operation]: [&str; 2],
        action: Action,
        (namespace, items): (&NamespaceName, usize),
        now: Timestamp,
    ) {
        let Some(file) = &self.0.file else { return };
        if self.0.level == AuditLevel::Denied || items == 0 {
            return;
        }
        let record = AuditRecord {
            time: now.into(),
            key: caller.key().map(|key| key.id.to_string()),
            address: address_of(caller.address()),
            protocol: protocol.to_owned(),
            operation: operation.to_owned(),
            action: Some(action.as_str().to_owned()),
            namespace: Some(namespace.to_string()),
            items: Some(items as u64),
            outcome: "ok".to_owned(),
            status: StatusCode::OK.as_u16(),
        };
        if file.try_send(FileMessage::Line(line_of(&record))).is_err() {
            dropped("file", 1);
        }
    }

    /// Waits until all lines are written.
    pub(crate) async fn flush(&self) {
        let Some(file) = &self.0.file else { return };
        let (reply, done) = oneshot::channel();
        let flushed = async {
            if file.send(FileMessage::Flush(reply)).await.is_ok() {
                done.await.ok();
            }
        };
        // A file that cannot be written must not stop the end.
        let _in_time = tokio::time::timeout(CLOSE_WITHIN, flushed).await;
    }
}

impl AuditedCall {
    /// Records the end of the call.
    pub(crate) fn end(mut self, key: Option<&KeyId>, notes: Option<CallNotes>, status: StatusCode) {
        let notes = notes.unwrap_or_default();
        let is_denied =
            notes.is_denied || [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&status);
        self.record.key = key.map(ToString::to_string);
        self.record.namespace = notes.namespace.map(|name| name.to_string());
        self.record.items = Some(notes.items).filter(|items| *items > 0);
        self.record.status = status.as_u16();
        let is_doubtful = status.is_server_error();
        self.record.outcome = match () {
            () if is_denied => "denied",
            () if is_doubtful => "failed",
            () if status.is_client_error() => "refused",
            () => "ok",
        }
        .to_owned();
        let line = line_of(&self.record);
        let inner = &self.audit.0;
        if self.is_administrative && (is_doubtful || status.as_u16() < 400) {
            let id = AuditId::new(self.now, rand::random());
            let entries = inner.entries.as_ref();
            if entries.is_some_and(|entries| {
                entries
                    .try_send(AuditEntry {
                        id,
                        line: String::from_utf8_lossy(&line).trim_end().to_owned(),
                    })
                    .is_err()
            }) {
                dropped("store", 1);
            }
        }
        let Some(file) = inner.file.as_ref().filter(|_| self.is_change || is_denied) else {
            return;
        };
        let message = FileMessage::Line(line);
        match self.permit {
            Some(permit) => drop(permit.send(message)),
            None if file.try_send(message).is_err() => dropped("file", 1),
            None => {}
        }
    }
}

fn address_of(address: Option<IpAddr>) -> Option<String> {
    address.map(|address| address.to_canonical().to_string())
}

/// Returns a record as a line.
fn line_of(record: &AuditRecord) -> Vec<u8> {
    let mut line = serde_json::to_vec(record).expect("text and numbers are JSON");
    line.push(b'\n');
    line
}

/// Returns `true` for the operations of administrators.
const fn is_administrative(rule: Rule) -> bool {
    match rule {
        Rule::Needs(action) => matches!(
            action,
            Action::Operate | Action::Namespace | Action::Transfer | Action::Store | Action::Keys
        ),
        Rule::NeedsAll => true,
        Rule::Open | Rule::AnyKey => false,
    }
}

/// Writes entries to the store until the server ends.
async fn keep(mut queue: mpsc::Receiver<AuditEntry>, store: Arc<dyn Store>) {
    let mut waiting = Vec::new();
    while queue.recv_many(&mut waiting, ENTRIES_MAX).await > 0 {
        tokio::time::sleep(GATHER).await;
        while let Ok(entry) = queue.try_recv() {
            waiting.push(entry);
        }
        let mut is_logged = false;
        while let Err(error) = store.append_audit(waiting.clone()).await {
            if !std::mem::replace(&mut is_logged, true) {
                tracing::warn!(%error, "audit entries not in the store yet; they are tried again");
            }
            tokio::time::sleep(RETRY_AFTER).await;
        }
        waiting.clear();
    }
}

/// Counts lines that are lost.
fn dropped(target: &'static str, lines: u64) {
    counter!(names::AUDIT_DROPPED_TOTAL, "target" => target).increment(lines);
}

fn unwritable() -> Problem {
    let detail = "the audit log cannot be written, and audit.required refuses calls without a line: an \
                  operator must see to the disk of audit.file";
    Problem::temporary(Code::Unavailable, detail)
}

#[cfg(test)]
mod tests;
