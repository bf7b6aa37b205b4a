//! Finds the known name that is most similar to an unknown one.

/// Longest unknown name, in bytes, for which a similar one is searched.
const SEEN_BYTES_MAX: usize = 64;

/// Returns a description of allowed names, with the one that was meant if it resembles an unknown one.
pub fn with_similar<'a>(
    allowed: String,
    seen: &str,
    known: impl Iterator<Item = &'a str>,
) -> String {
    match most_similar(seen, known) {
        Some(meant) => format!("{allowed} (did you mean {meant}?)"),
        None => allowed,
    }
}

/// Returns the most similar known name, if it is similar enough for a typing error: at most a third of
/// its letters differ. Letter case does not count, and `-` equals `_`.
pub fn most_similar<'a>(seen: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if seen.is_empty() || seen.len() > SEEN_BYTES_MAX {
        return None;
    }
    let plain = |name: &str| name.to_lowercase().replace('-', "_");
    let seen = plain(seen);
    let measured = known.filter_map(|name| {
        let distance = strsim::damerau_levenshtein(&seen, &plain(name));
        let most = (name.len() / 3).max(1);
        (distance <= most && distance < name.len()).then_some((distance, name))
    });
    measured.min_by_key(|(distance, _)| *distance).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_found_and_another_word_is_not() {
        let names = ["listen", "allowed_hosts", "allowed_origins", "data"];
        let check = |seen, expected| {
            assert_eq!(most_similar(seen, names.into_iter()), expected, "{seen}");
        };
        check("listen", Some("listen"));
        check("lisetn", Some("listen"));
        check("Listen", Some("listen"));
        check("allowed-hosts", Some("allowed_hosts"));
        check("allowed_host", Some("allowed_hosts"));
        check("dta", Some("data"));
        check("port", None);
        check("", None);
        check("address", None);
        assert_eq!(most_similar("a", ["b"].into_iter()), None, "it has no letter in common");
        check(&"listen".repeat(20), None);
        let allowed =
            |seen| with_similar("one of a, bcd".to_owned(), seen, ["a", "bcd"].into_iter());
        assert_eq!(allowed("bdc"), "one of a, bcd (did you mean bcd?)");
        assert_eq!(allowed("other"), "one of a, bcd");
    }
}
