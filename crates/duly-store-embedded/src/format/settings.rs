//! Body of a namespace's record: name, times, totals, then its settings as tagged fields.

use std::sync::Arc;

use duly_core::{NamespaceName, Settings, totals::Totals};
use duly_record::{Layout, ReadFields as _, WriteFields as _};

use super::{
    DecodeError,
    fields::{FieldReader, FieldWriter},
    record::NamespaceRecord,
    timer,
};

const RESUMES_AT: u8 = 9;
const IMPLICIT: u8 = 10;

pub(super) fn encode_namespace(w: &mut FieldWriter<'_>, namespace: &NamespaceRecord) {
    w.text(namespace.name.as_str());
    w.u8(u8::from(namespace.paused));
    w.time(namespace.created_at);
    w.time(namespace.updated_at);
    let totals = &namespace.totals;
    for total in [
        totals.scheduled,
        totals.fired,
        totals.delivered,
        totals.failed,
        totals.cancelled,
        totals.rescheduled,
        totals.dead,
    ] {
        w.u64(total);
    }
    Layout::EMBEDDED.encode_settings(w, &namespace.settings);
    w.optional(RESUMES_AT, namespace.resumes_at, |w, at| w.time(at));
    if namespace.implicit {
        w.field(IMPLICIT, |_| {});
    }
    w.end();
}

pub(crate) fn decode_namespace(r: &mut FieldReader<'_>) -> Result<NamespaceRecord, DecodeError> {
    let name = NamespaceName::new(r.text()?)?;
    let paused = r.u8()? != 0;
    let (created_at, updated_at) = (r.time()?, r.time()?);
    let totals = Totals {
        scheduled: r.u64()?,
        fired: r.u64()?,
        delivered: r.u64()?,
        failed: r.u64()?,
        cancelled: r.u64()?,
        rescheduled: r.u64()?,
        dead: r.u64()?,
    };
    let mut settings = Settings::default();
    let (mut resumes_at, mut implicit) = (None, false);
    while let Some((tag, mut field)) = r.field()? {
        match tag {
            RESUMES_AT => resumes_at = Some(field.time()?),
            IMPLICIT => implicit = true,
            other if Layout::EMBEDDED.decode_settings(other, &mut field, &mut settings)? => {}
            other => return Err(timer::unknown_tag(other)),
        }
    }
    Ok(NamespaceRecord {
        name,
        settings: Arc::new(settings),
        paused,
        resumes_at,
        implicit,
        created_at,
        updated_at,
        totals,
    })
}
