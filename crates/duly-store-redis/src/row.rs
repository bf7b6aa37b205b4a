//! A row of this store: one id as it was read, and the arguments for `change.lua` of a change that follows from it. Pure:
//! no connection and no clock of its own. The decisions are those of `duly-decide`.

use std::{borrow::Borrow, sync::Arc};

use duly_core::{NamespaceName, Settings, Timestamp, destination::LaneKey, tombstone::Ended};
use duly_decide::{Case, Draft, LiveChange};

use crate::record::{Record, cancelled, firing_key_of};

/// Settings and state of a namespace, as one shard has them.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Control {
    pub(crate) name: NamespaceName,
    pub(crate) num: String,
    pub(crate) ver: String,
    pub(crate) settings: Arc<Settings>,
    pub(crate) paused: bool,
    pub(crate) resumes_at: Option<Timestamp>,
    pub(crate) created_at: Timestamp,
    pub(crate) updated_at: Timestamp,
}

/// One id as it was read.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) case: Case,
    pub(crate) control: Control,
    pub(crate) seen: SeenBytes,
}

impl Borrow<Case> for Row {
    fn borrow(&self) -> &Case {
        &self.case
    }
}

/// The bytes that were read, for the compare-and-set.
#[derive(Debug, Clone, Default)]
pub(crate) struct SeenBytes {
    pub(crate) core: Vec<u8>,
    pub(crate) lease: Vec<u8>,
    pub(crate) tombstone: Vec<u8>,
    /// Entry of the latest dead letter, unless another one was asked for.
    pub(crate) newest: Option<Vec<u8>>,
    pub(crate) dead_letter_core: Vec<u8>,
}

impl Row {
    /// Returns the arguments of the script that writes a draft. `version` names a payload that is to be stored apart;
    /// `rate` is the admission of an operation that `schedule_per_second` limits.
    pub(crate) fn arguments(
        &self,
        draft: &Draft,
        version: [u8; 8],
        rate: Option<&'static str>,
    ) -> Vec<Vec<u8>> {
        let Self { case, control, seen } = self;
        let mut out = Vec::new();
        let mut push = |name: &str, value: &[u8]| {
            out.push(name.as_bytes().to_vec());
            out.push(value.to_vec());
        };
        push("name", control.name.as_str().as_bytes());
        push("num", control.num.as_bytes());
        push("ver", control.ver.as_bytes());
        push("id", case.id.as_str().as_bytes());
        push("core", &seen.core);
        push("lease", &seen.lease);
        push("stub", &seen.tombstone);
        if let Some(newest) = &seen.newest {
            push("newest", newest);
        }
        match &draft.live {
            None => {}
            Some(LiveChange::Removed) => push("live", b""),
            Some(LiveChange::Extended(_)) => unreachable!("a script extends leases"),
            Some(LiveChange::Stopped(record)) => push("mark", &record.pack(version).record),
            Some(LiveChange::Put(record)) => {
                let timer = &record.timer;
                let packed = record.pack(version);
                push("live", &packed.record);
                push("at", timer.claimable_at().unix_ms().to_string().as_bytes());
                if let Some(at) = timer.expires_at() {
                    push("exp", at.unix_ms().to_string().as_bytes());
                }
                if let Some(receiver) = receiver_of(record) {
                    push("origin", receiver.as_bytes());
                }
                match packed.payload {
                    Some(payload) => push("payload", &payload),
                    None if record.apart.is_none() => push("payload", b""),
                    None => {}
                }
            }
        }
        if let Some(tombstone) = &draft.ended {
            assert_eq!(tombstone.ended, Ended::Cancelled, "a script ends what is acknowledged");
            push("ended", &cancelled(tombstone));
            push("kind", b"C");
        } else if draft.drop_tombstone {
            push("ended", b"");
        }
        if let Some(record) = &draft.dead_letter {
            let timer = &record.timer;
            let packed = record.pack(version);
            let did = timer.delivery_id(control.name.as_str());
            push("bury", &packed.record);
            push("bury_fk", &firing_key_of(record));
            push("bury_due", timer.due_at.unix_ms().to_string().as_bytes());
            push("bury_did", &did.to_u128().to_be_bytes());
            match packed.payload {
                Some(payload) => push("bury_payload", &payload),
                None if record.apart.is_some() => push("bury_payload", b"="),
                None => {}
            }
        }
        if let (true, Some(letter)) = (draft.removes_dead_letter, &case.dead_letter) {
            let did = letter.timer.delivery_id(control.name.as_str());
            push("take_fk", &firing_key_of(letter));
            push("take_core", &seen.dead_letter_core);
            push("take_did", &did.to_u128().to_be_bytes());
            if draft.live.is_some() && letter.apart.is_some() {
                push("take_payload", b"=");
            }
        }
        if draft.quota_use.pending {
            push("one_more", b"1");
        }
        if draft.quota_use.dead_letter {
            push("one_letter", b"1");
        }
        if let Some(admission) = rate {
            push("rate", admission.as_bytes());
        }
        for count in draft.counts.iter().map(|total| total.as_str()) {
            push(&format!("count.{count}"), b"1");
        }
        out
    }
}

/// Returns the receiver that a record's own destination names.
pub(crate) fn receiver_of(record: &Record) -> Option<Arc<str>> {
    match record.timer.spec.destination.as_ref()?.lane_key() {
        LaneKey::Receiver(receiver) => Some(receiver),
        LaneKey::Pull | LaneKey::Overflow => None,
    }
}
