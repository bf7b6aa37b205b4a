//! The known name that an unknown one was probably meant to be.

/// The nearest of the known names, if one is near enough to be a slip of the finger: up to a third
/// of its letters wrong. Letter case does not count, nor whether words are joined by `-` or `_`.
pub(crate) fn nearest<'a>(seen: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
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
    use super::nearest;

    #[test]
    fn a_slip_is_found_and_another_word_is_not() {
        let names = ["listen", "allowed_hosts", "allowed_origins", "data"];
        let check = |seen, expected| {
            assert_eq!(nearest(seen, names.into_iter()), expected, "{seen}");
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
