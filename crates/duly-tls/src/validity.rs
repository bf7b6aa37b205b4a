//! The time in which a certificate is valid, and which certificate may replace one in use.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use duly_core::Timestamp;
use rustls::pki_types::CertificateDer;
use x509_parser::parse_x509_certificate;

/// The time in which a certificate is valid, since the beginning of Unix time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// The begin.
    pub begin: Duration,
    /// The end, from which the certificate is not valid any more.
    pub end: Duration,
}

impl Validity {
    /// Returns that of the first certificate of a chain, which is the one of its owner. Returns `None` if the
    /// certificate cannot be read.
    #[must_use]
    pub fn of(chain: &[CertificateDer<'_>]) -> Option<Self> {
        let (_, parsed) = parse_x509_certificate(chain.first()?).ok()?;
        let since_epoch = |seconds| u64::try_from(seconds).ok().map(Duration::from_secs);
        let validity = parsed.validity();
        Some(Self {
            begin: since_epoch(validity.not_before.timestamp()).unwrap_or_default(),
            end: since_epoch(validity.not_after.timestamp())?,
        })
    }

    fn contains(&self, now: Duration) -> bool {
        (self.begin..self.end).contains(&now)
    }
}

/// Checks that the certificate of a chain is within its time, unless the present one is out of its own too.
///
/// # Errors
/// A sentence with the time that the certificate misses.
pub fn check_replacement(
    read: &[CertificateDer<'_>],
    present: &[CertificateDer<'_>],
    now: SystemTime,
) -> Result<(), String> {
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let Some(new) = Validity::of(read) else { return Ok(()) };
    if new.contains(now) || !Validity::of(present).is_some_and(|it| it.contains(now)) {
        return Ok(());
    }
    let (verb, time) = if now < new.begin { ("begins", new.begin) } else { ("ended", new.end) };
    let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let at = Timestamp::saturating_from_unix_ms(ms);
    Err(format!("its certificate {verb} at {at}, and the present one is valid"))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    #[test]
    fn an_ended_certificate_does_not_replace_a_valid_one() {
        let of_years = |from, to| {
            let mut params = CertificateParams::new(vec!["duly".to_owned()]).expect("a name");
            (params.not_before, params.not_after) =
                (date_time_ymd(from, 1, 1), date_time_ymd(to, 1, 1));
            let key = KeyPair::generate().expect("a key");
            [params.self_signed(&key).expect("signed").der().clone()]
        };
        let now = UNIX_EPOCH + Duration::from_secs(1_800_000_000); // 2027
        let [good, better, ended, later] = [(2026, 2028), (2027, 2029), (2020, 2026), (2030, 2031)]
            .map(|(from, to)| of_years(from, to));
        assert_eq!(check_replacement(&better, &good, now), Ok(()));
        for (read, word) in [(&ended, "ended at 2026-01-01"), (&later, "begins at 2030-01-01")] {
            let refused = check_replacement(read, &good, now).expect_err("the present one is kept");
            assert!(refused.contains(word), "{refused}");
            // Nothing is lost then.
            assert_eq!(check_replacement(read, &ended, now), Ok(()));
        }
    }
}
