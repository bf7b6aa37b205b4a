//! The scripts: one Lua file each in `scripts/`, whose header describes arguments and reply.
//!
//! The text of a script consists of its flags, the clock, the common base, the parts that it needs, and
//! its own file. It is called by the digest that the server returned when the text was loaded.

/// Text of the clock, at the head of every script.
pub(crate) const CLOCK: &str = include_str!("scripts/clock.lua");

const BASE: &str = include_str!("scripts/base.lua");
const BLOCKS: &str = include_str!("scripts/blocks.lua");
const LANES: &str = include_str!("scripts/lanes.lua");
const TOMBSTONES: &str = include_str!("scripts/tombstones.lua");
const RATE: &str = include_str!("scripts/rate.lua");
const QUOTA: &str = include_str!("scripts/quota.lua");
const FEATURES: &str = include_str!("scripts/features.lua");
const USED_IDS: &str = include_str!("scripts/used_ids.lua");
const VACANT: &str = include_str!("scripts/vacant.lua");

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
    DeploymentRecord: "deployment_record", Writes, [];
    WriteMarker: "write_marker", Writes, [FEATURES];
    Seal: "seal", Writes, [FEATURES];
    Trial: "trial", Writes, [];
    AcceptList: "accept_list", Writes, [];
    Progress: "progress", Writes, [];
    Put: "put", Writes, [];
    EndNamespace: "end_namespace", Writes, [BLOCKS, LANES, VACANT];
    Idle: "idle", Writes, [VACANT];
    NamespaceUse: "namespace_use", Reads, [VACANT];
    EndRecords: "end_records", Reads, [];
    NamespaceInShard: "namespace_in_shard", Reads, [];
    Numbers: "numbers", Reads, [];
    DeletionLock: "deletion_lock", Writes, [];
    Names: "names", Reads, [];
    Read: "read", Reads, [];
    Schedule: "schedule", Grows, [BLOCKS, LANES, USED_IDS, RATE];
    CountFreeIds: "count_free_ids", Reads, [USED_IDS];
    Grant: "grant", Writes, [RATE];
    QuotaReport: "quota_report", Writes, [QUOTA];
    Transfer: "transfer", Writes, [QUOTA];
    AllocateQuotas: "allocate_quotas", Writes, [QUOTA];
    Cancel: "cancel", Writes, [BLOCKS, LANES, TOMBSTONES];
    Grow: "change", Grows, [BLOCKS, LANES, TOMBSTONES, RATE];
    Change: "change", Writes, [BLOCKS, LANES, TOMBSTONES, RATE];
    Claim: "claim", Writes, [BLOCKS, LANES];
    VoidClaim: "void_claim", Writes, [];
    Ack: "ack", Writes, [TOMBSTONES];
    Extend: "extend", Writes, [];
    Owed: "owed", Writes, [BLOCKS, LANES];
    Ready: "ready", Reads, [BLOCKS, LANES];
    List: "list", Reads, [BLOCKS, LANES];
    Stats: "stats", Reads, [BLOCKS, LANES, TOMBSTONES];
    Trim: "trim", Writes, [TOMBSTONES];
    Forecast: "forecast", Reads, [BLOCKS, LANES];
    Health: "health", Reads, [BLOCKS, LANES];
    Heartbeat: "heartbeat", Writes, [];
    Holders: "holders", Reads, [];
    Index: "index", Writes, [TOMBSTONES];
    Announce: "announce", Writes, [];
    AllocateLanes: "allocate_lanes", Writes, [];
    Audit: "audit", Reads, [];
    AppendAudit: "append_audit", Writes, [];
    Access: "access", Reads, [];
    ChangeAccess: "change_access", Writes, [FEATURES];
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
                Self::Heartbeat
                    | Self::Announce
                    | Self::AllocateLanes
                    | Self::Index
                    | Self::Progress
                    | Self::AppendAudit
            )
    }

    /// Returns `true` if its writes must be on the replicas before the call returns. Writes that matter
    /// for less than a second need not be.
    pub(crate) const fn waits_for_copies(self) -> bool {
        !self.is_repeated() && !matches!(self, Self::Grant)
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
                assert!(own.contains(word), "{script:?} does not document {word}");
            }
        }
    }

    #[test]
    fn read_only_scripts_never_write() {
        for script in Script::ALL {
            let own = script.parts().2;
            let writes = ["flush()", "touch_seq()", "unchanged("].iter().any(|it| own.contains(it));
            assert_eq!(writes, !script.only_reads(), "{script:?}");
        }
    }
}
