//! Compares printed text with the text of a page, without regard to times and random values.

/// Stands for any text.
const ANY: &str = "…";
/// Shortest id or token that the server generates.
const ID_CHARS_MIN: usize = 26;
const UNITS: [&str; 5] = ["ms", "s", "m", "h", "d"];

/// Compares line by line.
pub(super) fn is_as_shown(shown: &[String], printed: &[String]) -> bool {
    match shown.split_first() {
        None => printed.is_empty(),
        Some((line, shown)) if line.trim() == ANY => {
            (0..=printed.len()).any(|skipped| is_as_shown(shown, &printed[skipped..]))
        }
        Some((line, shown)) => printed.split_first().is_some_and(|(first, printed)| {
            is_same(&plain(line), &plain(first)) && is_as_shown(shown, printed)
        }),
    }
}

/// Compares a line in which [`ANY`] stands for any text.
fn is_same(shown: &str, printed: &str) -> bool {
    let mut pieces = shown.split(ANY);
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = printed.strip_prefix(first) else { return false };
    let mut pieces = pieces.peekable();
    if pieces.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(piece) = pieces.next() {
        if pieces.peek().is_none() {
            return rest.ends_with(piece);
        }
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    true
}

/// Returns a line without the parts that differ from run to run: times become `<time>`, time spans
/// `<span>`, ids and tokens `<id>`, and a run of spaces between columns one space.
fn plain(line: &str) -> String {
    // A time of now, or of a moment ago.
    let line = line.replace("(now)", "(0s ago)").replace(" now ", " 0s ago ");
    let mut out: Vec<String> = Vec::new();
    for word in line.split_whitespace() {
        let word = without_ids(&without_times(word));
        let bare = word.trim_matches(['(', ')', ',', ':']);
        let is_unit = UNITS.contains(&bare) && out.last().is_some_and(|last| is_number(last));
        if !is_span(bare) && !is_unit {
            out.push(word);
            continue;
        }
        if is_unit {
            out.pop();
        }
        let word = word.replacen(bare, "<span>", 1);
        match out.last_mut() {
            Some(last) if last.ends_with("<span>") && word.starts_with('<') => {
                *last = last.replace("<span>", &word);
            }
            _ => out.push(word),
        }
    }
    out.join(" ")
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || b == b'.')
}

fn is_span(text: &str) -> bool {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    unit.len() < text.len() && UNITS.contains(&unit)
}

/// Replaces times like `2026-11-21T03:41:26.288Z`, the only form in which the server writes them.
fn without_times(word: &str) -> String {
    const FORM: &str = "0000-00-00T00:00:00.000Z";
    let is_time = |text: &str| {
        text.len() == FORM.len()
            && text.chars().zip(FORM.chars()).all(|(c, form)| match form {
                '0' => c.is_ascii_digit(),
                form => c == form,
            })
    };
    let mut out = String::new();
    let mut rest = word;
    while let Some(c) = rest.chars().next() {
        match rest.get(..FORM.len()) {
            Some(text) if is_time(text) => {
                out.push_str("<time>");
                rest = &rest[FORM.len()..];
            }
            _ => {
                out.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
    }
    out
}

fn without_ids(word: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let mut out = String::new();
    let mut rest = word;
    while !rest.is_empty() {
        let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
        let (run, behind) = rest.split_at(end);
        let is_id = run.len() >= ID_CHARS_MIN && run.contains(|c: char| c.is_ascii_uppercase());
        out.push_str(if is_id { "<id>" } else { run });
        let other = behind.find(is_part).unwrap_or(behind.len());
        out.push_str(&behind[..other]);
        rest = &behind[other..];
    }
    out
}

#[test]
fn what_differs_from_run_to_run_is_taken_out_and_nothing_else() {
    for (line, expected) in [
        ("a  b   c ", "a b c"),
        (
            r#"{"due_at":"2026-11-21T03:41:26.288Z","revision":1}"#,
            r#"{"due_at":"<time>","revision":1}"#,
        ),
        (
            "order:1  scheduled, due 2026-11-21T03:41:26.307Z (in 1.9s)",
            "order:1 scheduled, due <time> (in <span>)",
        ),
        ("in 29m 59s  attempt 2", "in <span> attempt 2"),
        ("in 30m  attempt 2", "in <span> attempt 2"),
        ("(8.1s ago)", "(<span> ago)"),
        ("order:1  due 2026-11-21T03:41:26.307Z (now)", "order:1 due <time> (<span> ago)"),
        ("(in 2d 23h)", "(in <span>)"),
        ("2.1 ms late", "<span> late"),
        ("200 CUC3EQ7IWD6H5FG7KNFNCZ3GVQ order 1 closed", "200 <id> order 1 closed"),
        (r#""token":"AACnDoeQ-3TDVgEAAFIMhmy7Wa1oBQ""#, r#""token":"<id>""#),
        ("a_name_that_is_long_and_has_no_capitals", "a_name_that_is_long_and_has_no_capitals"),
        ("30 s", "<span>"),
    ] {
        assert_eq!(plain(line), expected, "{line}");
    }
}

#[test]
fn a_page_may_leave_out_text_and_lines() {
    let lines = |text: &str| -> Vec<String> { text.lines().map(str::to_owned).collect() };
    let printed = "one  two three\nfour\nfive";
    for (shown, is_same) in [
        ("one two three\nfour\nfive", true),
        ("one … three\n…", true),
        ("…\nfive", true),
        ("…", true),
        ("one…\nfour\n…five", true),
        ("one two three\nfour", false),
        ("one two three\nfour\nfive\nsix", false),
        ("one three\n…", false),
        ("one … four\n…", false),
        ("", false),
    ] {
        assert_eq!(is_as_shown(&lines(shown), &lines(printed)), is_same, "{shown}");
    }
}
