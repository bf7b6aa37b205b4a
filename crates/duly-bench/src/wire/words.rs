//! Words of the API, read in one way for all recording clients.

use duly_checker::history::SettleAnswer;

/// Parses the outcome word of a settlement.
pub fn settle_answer(outcome: &str) -> Option<SettleAnswer> {
    Some(match outcome {
        "ok" => SettleAnswer::Ok,
        "dead" => SettleAnswer::Dead,
        "already_settled" => SettleAnswer::AlreadySettled,
        "lease_lost" => SettleAnswer::LeaseLost,
        "invalid_token" => SettleAnswer::InvalidToken,
        _ => return None,
    })
}

/// Returns the Unix milliseconds of a time in a response (`2030-01-31T12:00:00.000Z`).
pub fn time_ms(text: &str) -> Option<u64> {
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<u64>().ok();
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let ms = number(20, 23).unwrap_or(0);
    // Days since 1970 (Howard Hinnant, "chrono-compatible low-level date algorithms").
    let year = if month <= 2 { year.checked_sub(1)? } else { year };
    let day_of_year = ((153 * ((month + 9) % 12) + 2) / 5 + day).checked_sub(1)?;
    let era_day = (year % 400) * 365 + (year % 400) / 4 - (year % 400) / 100 + day_of_year;
    let days = ((year / 400) * 146_097 + era_day).checked_sub(719_468)?;
    Some((((days * 24 + hour) * 60 + minute) * 60 + second) * 1_000 + ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_answers() {
        for (text, ms) in [
            ("1970-01-01T00:00:00.000Z", Some(0)),
            ("2023-11-14T22:13:20.123Z", Some(1_700_000_000_123)),
            ("2000-02-29T00:00:00.000Z", Some(951_782_400_000)),
            ("2200-01-01T00:00:00.000Z", Some(7_258_118_400_000)),
            ("0000-01-00T00:00:00.000Z", None),
            ("soon", None),
        ] {
            assert_eq!(time_ms(text), ms, "{text}");
        }
    }
}
