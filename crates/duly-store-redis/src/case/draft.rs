//! A planned change of one id, and its arguments for `change.lua`.

use crate::{
    keys::firing_key,
    rate::RateAdmission,
    record::{Record, cancelled},
};

use super::{Case, origin_of};

/// A change of one id. Parts that are left out stay as they are.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    pub(crate) live: Option<LiveChange>,
    /// `true`: the present tombstone is dropped.
    pub(crate) drop_tombstone: bool,
    /// `true`: the timer leaves the tombstone of a cancelled one.
    pub(crate) cancelled: bool,
    /// A new dead letter, and the source of its payload.
    pub(crate) dead_letter: Option<(Box<Record>, PayloadSource)>,
    /// `true`: the dead letter of the case is removed. Its payload goes with it, or to the live timer.
    pub(crate) removes_dead_letter: bool,
    /// `true`: refused when the namespace has as many pending timers as it may.
    pub(crate) checks_pending: bool,
    /// `true`: refused when the namespace has as many dead letters as it may.
    pub(crate) checks_dead_letters: bool,
    /// Refused when `schedule_per_second` is used up; the coordinator shard may have to be asked.
    pub(crate) rate: Option<RateAdmission>,
    pub(crate) counts: Vec<&'static str>,
}

/// New state of the live timer.
#[derive(Debug)]
pub(crate) enum LiveChange {
    Removed,
    /// The timer without a lease.
    Put(Box<Record>),
}

/// Source of the payload of a new dead letter, if it is stored apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PayloadSource {
    /// The payload is in the record, or is stored apart with it.
    Inline,
    /// The payload of the live timer moves to the dead letter.
    Moves,
}

impl Draft {
    pub(crate) fn put(record: Record) -> Self {
        Self { live: Some(LiveChange::Put(Box::new(record))), ..Self::default() }
    }

    /// Returns the arguments of the script. `version` names a payload that is to be stored apart.
    pub(crate) fn arguments(&self, case: &Case, version: [u8; 8]) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        let mut push = |name: &str, value: &[u8]| {
            out.push(name.as_bytes().to_vec());
            out.push(value.to_vec());
        };
        let control = &case.control;
        push("name", control.name.as_str().as_bytes());
        push("num", control.num.as_bytes());
        push("ver", control.ver.as_bytes());
        push("id", case.id.as_str().as_bytes());
        push("core", &case.seen.core);
        push("lease", &case.seen.lease);
        push("stub", &case.seen.tombstone);
        if let Some(newest) = &case.seen.newest {
            push("newest", newest);
        }
        match &self.live {
            None => {}
            Some(LiveChange::Removed) => push("live", b""),
            Some(LiveChange::Put(record)) => {
                let timer = &record.timer;
                let packed = record.pack(version);
                push("live", &packed.record);
                push("at", timer.claimable_at().unix_ms().to_string().as_bytes());
                if let Some(at) = timer.expires_at() {
                    push("exp", at.unix_ms().to_string().as_bytes());
                }
                if let Some(origin) = origin_of(record) {
                    push("origin", origin.as_bytes());
                }
                match packed.payload {
                    Some(payload) => push("payload", &payload),
                    None if record.apart.is_none() => push("payload", b""),
                    None => {}
                }
            }
        }
        if self.cancelled {
            push("ended", &cancelled(&case.seen.core, case.now));
            push("kind", b"C");
        } else if self.drop_tombstone {
            push("ended", b"");
        }
        if let Some((record, payload)) = &self.dead_letter {
            let timer = &record.timer;
            let packed = record.pack(version);
            let did = timer.delivery_id(control.name.as_str());
            push("bury", &packed.record);
            push("bury_fk", &firing_key(&timer.id, timer.incarnation, timer.occurrence));
            push("bury_due", timer.due_at.unix_ms().to_string().as_bytes());
            push("bury_did", &did.to_u128().to_be_bytes());
            match (payload, packed.payload) {
                (PayloadSource::Moves, _) => push("bury_payload", b"="),
                (PayloadSource::Inline, Some(payload)) => push("bury_payload", &payload),
                (PayloadSource::Inline, None) => {}
            }
        }
        if let (true, Some(letter)) = (self.removes_dead_letter, &case.dead_letter) {
            let did = letter.record.timer.delivery_id(control.name.as_str());
            push("take_fk", &letter.key);
            push("take_core", &case.seen.dead_letter_core);
            push("take_did", &did.to_u128().to_be_bytes());
            if self.live.is_some() && letter.record.apart.is_some() {
                push("take_payload", b"=");
            }
        }
        if self.checks_pending {
            push("one_more", b"1");
        }
        if self.checks_dead_letters {
            push("one_letter", b"1");
        }
        if let Some(admission) = self.rate {
            push("rate", admission.as_str().as_bytes());
        }
        for count in &self.counts {
            push(&format!("count.{count}"), b"1");
        }
        out
    }
}
