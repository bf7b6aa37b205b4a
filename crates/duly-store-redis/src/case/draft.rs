//! A planned change of one id, and its arguments for `change.lua`.

use crate::{
    keys::firing_key,
    rate::Pace,
    record::{Record, cancelled},
};

use super::{Case, origin_of};

/// A change of one id. Parts that are left out stay as they are.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    pub(crate) live: Option<New>,
    /// `true`: the present tombstone is dropped.
    pub(crate) drop_tombstone: bool,
    /// `true`: the timer leaves the tombstone of a cancelled one.
    pub(crate) cancelled: bool,
    /// A new dead letter, and the source of its payload.
    pub(crate) bury: Option<(Box<Record>, Payload)>,
    /// `true`: the dead letter of the case is removed. Its payload goes with it, or to the live timer.
    pub(crate) take: bool,
    /// `true`: refused when the namespace has as many pending timers as it may.
    pub(crate) one_more: bool,
    /// `true`: refused when the namespace has as many dead letters as it may.
    pub(crate) one_letter: bool,
    /// Refused when `schedule_per_second` is used up; the coordinator shard may have to be asked.
    pub(crate) rate: Option<Pace>,
    pub(crate) counts: Vec<&'static str>,
}

/// New state of the live timer.
#[derive(Debug)]
pub(crate) enum New {
    Gone,
    /// The timer without a lease.
    Put(Box<Record>),
}

/// Source of the payload of a new dead letter, if it is stored apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Payload {
    /// The payload is in the record, or is stored apart with it.
    Inline,
    /// The payload of the live timer moves to the dead letter.
    Moves,
}

impl Draft {
    pub(crate) fn put(record: Record) -> Self {
        Self { live: Some(New::Put(Box::new(record))), ..Self::default() }
    }

    /// Returns the arguments of the script. `version` names a payload that is to be stored apart.
    pub(crate) fn arguments(&self, case: &Case, version: [u8; 8]) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        let mut say = |name: &str, value: &[u8]| {
            out.push(name.as_bytes().to_vec());
            out.push(value.to_vec());
        };
        let control = &case.control;
        say("name", control.name.as_str().as_bytes());
        say("num", control.num.as_bytes());
        say("ver", control.ver.as_bytes());
        say("id", case.id.as_str().as_bytes());
        say("core", &case.seen.core);
        say("lease", &case.seen.lease);
        say("stub", &case.seen.tombstone);
        if let Some(newest) = &case.seen.newest {
            say("newest", newest);
        }
        match &self.live {
            None => {}
            Some(New::Gone) => say("live", b""),
            Some(New::Put(record)) => {
                let timer = &record.timer;
                let packed = record.pack(version);
                say("live", &packed.record);
                say("at", timer.claimable_at().unix_ms().to_string().as_bytes());
                if let Some(at) = timer.expires_at() {
                    say("exp", at.unix_ms().to_string().as_bytes());
                }
                if let Some(origin) = origin_of(record) {
                    say("origin", origin.as_bytes());
                }
                match packed.payload {
                    Some(payload) => say("payload", &payload),
                    None if record.apart.is_none() => say("payload", b""),
                    None => {}
                }
            }
        }
        if self.cancelled {
            say("ended", &cancelled(&case.seen.core, case.now));
            say("kind", b"C");
        } else if self.drop_tombstone {
            say("ended", b"");
        }
        if let Some((record, payload)) = &self.bury {
            let timer = &record.timer;
            let packed = record.pack(version);
            let did = timer.delivery_id(control.name.as_str());
            say("bury", &packed.record);
            say("bury_fk", &firing_key(&timer.id, timer.incarnation, timer.occurrence));
            say("bury_due", timer.due_at.unix_ms().to_string().as_bytes());
            say("bury_did", &did.to_u128().to_be_bytes());
            match (payload, packed.payload) {
                (Payload::Moves, _) => say("bury_payload", b"="),
                (Payload::Inline, Some(payload)) => say("bury_payload", &payload),
                (Payload::Inline, None) => {}
            }
        }
        if let (true, Some(letter)) = (self.take, &case.letter) {
            let did = letter.record.timer.delivery_id(control.name.as_str());
            say("take_fk", &letter.key);
            say("take_core", &case.seen.letter_core);
            say("take_did", &did.to_u128().to_be_bytes());
            if self.live.is_some() && letter.record.apart.is_some() {
                say("take_payload", b"=");
            }
        }
        if self.one_more {
            say("one_more", b"1");
        }
        if self.one_letter {
            say("one_letter", b"1");
        }
        if let Some(pace) = self.rate {
            say("rate", pace.as_str().as_bytes());
        }
        for count in &self.counts {
            say(&format!("count.{count}"), b"1");
        }
        out
    }
}
