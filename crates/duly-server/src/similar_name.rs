//! Finds the known name that is most similar to an unknown one.

/// Returns the most similar known name, if it is similar enough for a typing error: at most a third of
/// its letters differ. Letter case does not count, and `-` equals `_`.
pub(crate) fn most_similar<'a>(
    seen: &str,
    known: impl Iterator<Item = &'a str>,
) -> Option<&'a str> {
    let plain = |name: &str| name.to_lowercase().replace('-', "_");
    let seen = plain(seen);
    let measured = known.filter_map(|name| {
        let distance = strsim::damerau_levenshtein(&seen, &plain(name));
        (distance <= (name.len() / 3).max(1)).then_some((distance, name))
    });
    measured.min_by_key(|(distance, _)| *distance).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::most_similar;

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
    }
}
