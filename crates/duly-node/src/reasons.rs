//! The bound of the reasons of failed attempts. A receiver or a consumer chooses their text, and the store keeps it.

use std::{fmt, sync::Arc};

use duly_core::{NamespaceName, timer::REASON_BYTES_MAX};
use duly_store::{SettleVerdict, Settlement};

/// Most bytes of Duly's own part of a reason that may not be kept whole.
const OWN_BYTES_MAX: usize = 64;

/// Decides which namespaces may keep further reasons; cheap to clone. By default all may.
#[derive(Clone, Default)]
pub struct ReasonLimit(Option<Arc<MayKeep>>);

/// Returns the part of a reason that is Duly's own.
type OwnPart = fn(&str) -> &str;

type MayKeep = dyn Fn(&NamespaceName, usize) -> bool + Send + Sync;

impl fmt::Debug for ReasonLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReasonLimit").finish_non_exhaustive()
    }
}

impl ReasonLimit {
    /// Creates a limit. `may_keep` returns `true` if a namespace may keep a reason with this number of bytes.
    pub fn new(may_keep: impl Fn(&NamespaceName, usize) -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(may_keep)))
    }

    /// Leaves all but Duly's own part of a reason, unless its namespace may keep the whole.
    pub(crate) fn apply(&self, settlement: &mut Settlement, own: OwnPart) {
        let (SettleVerdict::Retry { reason, .. } | SettleVerdict::Dead { reason }) =
            &mut settlement.verdict
        else {
            return;
        };
        let (Some(may_keep), Some(namespace)) = (&self.0, &settlement.namespace) else { return };
        let bytes = reason.len().min(REASON_BYTES_MAX);
        if bytes > 0 && !may_keep(namespace, bytes) {
            reason.truncate(own(reason).floor_char_boundary(OWN_BYTES_MAX));
        }
    }
}

#[cfg(test)]
mod tests {
    use duly_core::{
        shard::ShardId,
        timer::{AttemptOutcome, Wait, own_reason},
    };
    use duly_store::Token;

    use super::*;

    #[test]
    fn a_namespace_without_room_keeps_no_text_of_others() {
        let limit = ReasonLimit::new(|namespace, bytes| namespace.as_str() == "large" || bytes < 9);
        let words = "x".repeat(2_000);
        let (none, status): (OwnPart, OwnPart) = (|_| "", own_reason);
        let shown = "HTTP 503 (repeated if the retry policy allows)";
        let http = format!("{shown}: {words}");
        let retry = |reason: &str| SettleVerdict::Retry {
            wait: Wait::None,
            outcome: AttemptOutcome::Failed,
            reason: reason.to_owned(),
        };
        let dead = |reason: &str| SettleVerdict::Dead { reason: reason.to_owned() };
        for (own, reason, expected) in [
            (none, &*words, ""),
            (none, "short", "short"),
            (status, &http, shown),
            (status, &words, &words[..OWN_BYTES_MAX]),
        ] {
            for (namespace, kept) in [("large", reason), ("full", expected)] {
                for verdict in [retry(reason), dead(reason)] {
                    let namespace = Some(NamespaceName::new(namespace).unwrap());
                    let token = Token::new(ShardId(0), &[]);
                    let mut settlement = Settlement { token, namespace, verdict };
                    limit.apply(&mut settlement, own);
                    let (SettleVerdict::Retry { reason, .. } | SettleVerdict::Dead { reason }) =
                        settlement.verdict
                    else {
                        panic!("the verdict stays")
                    };
                    assert_eq!(reason, kept);
                }
            }
        }
    }
}
