//! Leasing: the request, and the firings that are handed out.

use duly_core::Invalid;
use duly_proto::v1;
use duly_store::Firing;

use super::{
    super::{LeaseIn, firing::LeaseCall},
    headers_out,
    operation::integer,
    payload::payload_out,
    time::{maybe_duration_in, time_out},
};

/// What a caller wants to lease.
pub(crate) fn lease_in(request: v1::LeaseRequest) -> Result<LeaseCall, Invalid> {
    let lease = LeaseIn {
        max: integer(request.max),
        max_bytes: integer(request.max_bytes),
        lease: maybe_duration_in("lease", request.lease)?,
        wait: maybe_duration_in("wait", request.wait)?,
    };
    lease.check()
}

/// A firing in an answer.
pub(crate) fn firing_out(firing: &Firing) -> v1::Firing {
    let (payload, form) = payload_out(firing.payload.as_ref());
    v1::Firing {
        token: firing.token.to_string(),
        delivery_id: firing.delivery_id.to_string(),
        id: firing.id.as_str().to_owned(),
        occurrence: firing.occurrence,
        attempt: firing.attempt,
        due_at: Some(time_out(firing.due_at)),
        leased_until: firing.leased_until.map(time_out),
        headers: headers_out(&firing.headers),
        slot_key: firing.slot_key.as_ref().map(|key| key.as_str().to_owned()),
        payload,
        payload_form: form.into(),
    }
}
