//! The scripts: one Lua file each in `scripts/`, whose header describes arguments and reply.
//!
//! The text of a script consists of its flags, the clock, the common base, the parts that it needs, and
//! its own file. It is called by the digest that the server returned when the text was loaded.

/// Text of the clock, at the head of every script.
pub(crate) const CLOCK: &str = include_str!("scripts/clock.lua");

const BASE: &str = include_str!("scripts/base.lua");
const BLOCKS: &str = include_str!("scripts/blocks.lua");
const LANES: &str = include_str!("scripts/lanes.lua");
const ENDED: &str = include_str!("scripts/ended.lua");
const ADMIT: &str = include_str!("scripts/admit.lua");
const RATE: &str = include_str!("scripts/rate.lua");
const QUOTA: &str = include_str!("scripts/quota.lua");
const USED: &str = include_str!("scripts/used.lua");
const VACANT: &str = include_str!("scripts/vacant.lua");
const SEEK: &str = include_str!("scripts/seek.lua");

/// Permissions of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flags {
    /// It creates timers: refused before its first write when the memory is full.
    Grows,
    /// It writes, also when the memory is full: a call that ends something must always be possible.
    Writes,
    /// It only reads.
    Reads,
}

macro_rules! scripts {
    ($($name:ident: $file:literal, $flags:ident, [$($part:ident),*];)*) => {
        /// A script.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Script { $($name,)* }

        impl Script {
            /// Every script, in the order of their numbers.
            pub(crate) const ALL: &[Self] = &[$(Self::$name,)*];

            const fn parts(self) -> (Flags, &'static [&'static str], &'static str) {
                match self {
                    $(Self::$name => (
                        Flags::$flags,
                        &[$($part,)*],
                        include_str!(concat!("scripts/", $file, ".lua")),
                    ),)*
                }
            }
        }
    };
}

scripts! {
    Found: "found", Writes, [];
    Mark: "mark", Writes, [];
    Seal: "seal", Writes, [];
    Accept: "accept", Writes, [];
    Progress: "progress", Writes, [];
    Put: "put", Writes, [];
    Gone: "gone", Writes, [SEEK, BLOCKS, LANES, VACANT];
    Idle: "idle", Writes, [VACANT];
    UsedBy: "used_by", Reads, [VACANT];
    Left: "left", Reads, [];
    Held: "held", Reads, [];
    Numbers: "numbers", Reads, [];
    Gate: "gate", Writes, [];
    Names: "names", Reads, [];
    Read: "read", Reads, [];
    Schedule: "schedule", Grows, [SEEK, BLOCKS, LANES, USED, RATE];
    Free: "free", Reads, [USED];
    Grant: "grant", Writes, [RATE];
    Shares: "shares", Writes, [QUOTA];
    Move: "move", Writes, [QUOTA];
    Deal: "deal", Writes, [QUOTA];
    Cancel: "cancel", Writes, [SEEK, BLOCKS, LANES, ENDED];
    Grow: "change", Grows, [SEEK, BLOCKS, LANES, ENDED, RATE, ADMIT];
    Change: "change", Writes, [SEEK, BLOCKS, LANES, ENDED, RATE, ADMIT];
    Claim: "claim", Writes, [SEEK, BLOCKS, LANES];
    Unclaim: "unclaim", Writes, [];
    Ack: "ack", Writes, [ENDED];
    Extend: "extend", Writes, [];
    Owed: "owed", Writes, [SEEK, BLOCKS, LANES];
    Ready: "ready", Reads, [SEEK, BLOCKS, LANES];
    List: "list", Reads, [SEEK, BLOCKS, LANES];
    Stats: "stats", Reads, [SEEK, BLOCKS, LANES, ENDED];
    Trim: "trim", Writes, [ENDED];
    Forecast: "forecast", Reads, [SEEK, BLOCKS, LANES];
    Health: "health", Reads, [SEEK, BLOCKS, LANES];
    Heartbeat: "beat", Writes, [];
    Holders: "holders", Reads, [];
    Index: "index", Writes, [ENDED];
    Announce: "announce", Writes, [];
    Allocate: "allot", Writes, [];
}

impl Script {
    /// Returns the whole text, with this clock, for the deployment of this id.
    pub(crate) fn text(self, clock: &str, deployment: &str) -> String {
        let (flags, parts, own) = self.parts();
        let flags = match flags {
            Flags::Grows => "#!lua",
            Flags::Writes => "#!lua flags=allow-oom",
            Flags::Reads => "#!lua flags=no-writes",
        };
        let deployment = format!("local DEPLOYMENT = '{deployment}'");
        let mut text = [flags, &deployment, clock, BASE].join("\n");
        for part in parts {
            text.push_str(part);
        }
        text.push_str(own);
        text
    }

    /// Returns `true` if the script only reads.
    pub(crate) const fn only_reads(self) -> bool {
        matches!(self.parts().0, Flags::Reads)
    }

    /// Returns `true` if losing the reply does no harm: the script only reads, is called again within a
    /// second, or can be repeated.
    pub(crate) const fn is_repeated(self) -> bool {
        self.only_reads()
            || matches!(
                self,
                Self::Heartbeat | Self::Announce | Self::Allocate | Self::Index | Self::Progress
            )
    }

    /// Returns `true` if its writes must be on the replicas before the call returns. Writes that matter
    /// for less than a second need not be.
    pub(crate) const fn waits_for_copies(self) -> bool {
        !self.is_repeated() && !matches!(self, Self::Grant)
    }

    /// Returns its place among the digests of a server.
    pub(crate) const fn place(self) -> usize {
        self as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_documents_keys_arguments_and_reply() {
        for script in Script::ALL {
            let own = script.parts().2;
            for word in ["-- KEYS", "-- ARGV", "-- reply"] {
                assert!(own.contains(word), "{script:?} does not say {word}");
            }
        }
    }

    #[test]
    fn read_only_scripts_never_write() {
        for script in Script::ALL {
            let own = script.parts().2;
            let writes = own.contains("flush()") || own.contains("touch_seq()");
            assert_eq!(writes, !script.only_reads(), "{script:?}");
        }
    }
}
