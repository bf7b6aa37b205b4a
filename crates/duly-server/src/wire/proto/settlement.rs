//! Settling.

use duly_core::{Invalid, NamespaceName};
use duly_proto::v1::{self, settle_result::Result as Kind, settlement::Verdict};
use duly_store::{SettleOutcome, Settlement};

use super::{
    super::{
        SettlementIn,
        settlement::{AckIn, DeadIn, ExtendIn, RetryVerdictIn},
    },
    problem::problem_out,
    time::{duration_in, maybe_duration_in},
};
use crate::http::Problem;

/// A settlement as a caller wrote it, checked; `None` for a token that is none at all.
pub(crate) fn settlement_in(
    namespace: &NamespaceName,
    settlement: v1::Settlement,
) -> Result<Option<Settlement>, Invalid> {
    let mut read = SettlementIn { token: settlement.token, ..SettlementIn::default() };
    match settlement.verdict {
        None => {}
        Some(Verdict::Ack(v1::Ack {})) => read.ack = Some(AckIn {}),
        Some(Verdict::Retry(retry)) => {
            let after = maybe_duration_in("retry.after", retry.after)?;
            read.retry = Some(RetryVerdictIn { after, reason: retry.reason });
        }
        Some(Verdict::Dead(dead)) => read.dead = Some(DeadIn { reason: dead.reason }),
        Some(Verdict::Extend(extend)) => {
            let lease = extend.lease.ok_or_else(|| Invalid::unseen("extend.lease", "given"))?;
            read.extend = Some(ExtendIn { lease: duration_in("extend.lease", lease)? });
        }
    }
    read.check(namespace)
}

/// Settlements of one message; an error names the field below its place among them.
pub(crate) fn settlements_in(
    namespace: &NamespaceName,
    settlements: Vec<v1::Settlement>,
) -> Vec<Result<Option<Settlement>, Invalid>> {
    let settlements = settlements.into_iter().enumerate();
    settlements
        .map(|(i, settlement)| {
            settlement_in(namespace, settlement)
                .map_err(|invalid| invalid.within(&format!("settlements[{i}]")))
        })
        .collect()
}

/// What became of a settlement.
pub(crate) fn settled_out(result: Result<SettleOutcome, Problem>) -> v1::SettleResult {
    let outcome = result.map(|outcome| match outcome {
        SettleOutcome::Ok => v1::SettleOutcome::Ok,
        SettleOutcome::Dead => v1::SettleOutcome::Dead,
        SettleOutcome::AlreadySettled => v1::SettleOutcome::AlreadySettled,
        SettleOutcome::LeaseLost => v1::SettleOutcome::LeaseLost,
        SettleOutcome::InvalidToken => v1::SettleOutcome::InvalidToken,
        // In doubt is an error of the item.
        SettleOutcome::InDoubt => v1::SettleOutcome::Unspecified,
    });
    let kind = match outcome {
        Ok(outcome) => Kind::Outcome(outcome.into()),
        Err(problem) => Kind::Error(problem_out(*problem.into_body())),
    };
    v1::SettleResult { result: Some(kind) }
}
