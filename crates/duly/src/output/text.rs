//! Escapes text from elsewhere for the terminal.
//!
//! Ids, payloads, errors of receivers and responses of servers come from elsewhere. Characters that
//! would move the cursor, colour the screen or change the reading direction are replaced by their
//! escapes.

/// Returns text as one line without control or direction characters, cut to `chars_max` characters.
pub(crate) fn preview(text: &str, chars_max: usize) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    for c in chars.by_ref().take(chars_max) {
        push(&mut out, c);
    }
    if chars.next().is_some() {
        out.push('…');
    }
    out
}

/// Returns text as one line without control or direction characters.
pub(crate) fn line(text: &str) -> String {
    preview(text, usize::MAX)
}

/// Returns an escaped text, cut to `chars_max` characters.
pub(crate) fn cut(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Returns text of several lines, in which only the line ends control the terminal.
pub(crate) fn lines(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c == '\n' { out.push(c) } else { push(&mut out, c) }
    }
    out
}

/// Returns an equal JSON document that cannot control the terminal. Most of these characters can only be
/// inside strings, where JSON has an escape for them; the other control characters are white space.
pub(crate) fn json(document: &str) -> String {
    let mut out = String::with_capacity(document.len());
    for c in document.chars() {
        match c {
            '\n' | '\t' => out.push(c),
            '\r' => out.push(' '),
            c if controls_terminal(c) => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out
}

/// Returns a JSON document on one line. A line end inside a string is escaped, so each literal line end
/// is between values.
pub(crate) fn one_line(document: &str) -> String {
    document.trim().replace(['\n', '\r'], " ")
}

/// Returns the warning that a result is without the timers of these shards; `None` if there are none.
pub(crate) fn incomplete(unavailable_shards: &[u32]) -> Option<String> {
    let list: Vec<_> = unavailable_shards.iter().map(u32::to_string).collect();
    let (shards, their) = match &list[..] {
        [] => return None,
        [one] => (format!("shard {one} is"), "its"),
        more => (format!("shards {} are", more.join(", ")), "their"),
    };
    Some(format!(
        "{shards} unavailable: {their} timers are missing from the result; `duly health` gives the reason"
    ))
}

/// Returns a number with its noun: `1 namespace`, `2 namespaces`.
pub(crate) fn count(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Returns a number of bytes for people.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    let unit = UNITS.into_iter().find(|(_, size)| bytes >= *size);
    unit.map_or_else(
        || format!("{bytes} bytes"),
        |(name, size)| {
            let tenths = u128::from(bytes) * 10 / u128::from(size);
            format!("{}.{} {name}", tenths / 10, tenths % 10)
        },
    )
}

fn push(out: &mut String, c: char) {
    if controls_terminal(c) {
        out.extend(c.escape_default());
    } else {
        out.push(c);
    }
}

/// Returns `true` if a character controls the terminal: control characters, and characters that end
/// lines or reorder the text around them.
fn controls_terminal(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        )
}

/// Returns bytes as a text on one line if they are UTF-8, else their number. The text is cut to `chars_max`
/// characters.
pub(crate) fn preview_bytes(bytes: &[u8], chars_max: usize) -> String {
    match std::str::from_utf8(bytes) {
        Ok("") => "(empty)".to_owned(),
        Ok(text) => preview(text, chars_max),
        Err(_) => format!("({} bytes, not text)", bytes.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nouns_have_a_plural() {
        let counts = [0, 1, 2].map(|number| count(number, "dead letter"));
        assert_eq!(counts, ["0 dead letters", "1 dead letter", "2 dead letters"]);
    }

    #[test]
    fn previews_are_escaped() {
        assert_eq!(preview("a\u{1b}[2Jb\n", 20), "a\\u{1b}[2Jb\\n");
        assert_eq!(preview("\u{202e}x\u{9b}y", 20), "\\u{202e}x\\u{9b}y");
        assert_eq!(preview("größe", 3), "grö…");
        assert_eq!(preview("abc", 3), "abc");
        assert_eq!(preview_bytes(&[0xff, 0], 9), "(2 bytes, not text)");
        assert_eq!(preview_bytes(b"", 9), "(empty)");
        assert_eq!(lines("a\nb\r\u{7}"), "a\nb\\r\\u{7}");
    }

    #[test]
    fn json_is_escaped_and_stays_equal() {
        let document = "{\"a\":\"x\u{9b}2J\u{7f}\u{202e}é\",\r\n\t\"b\":1}";
        let shown = json(document);
        assert!(
            shown.chars().all(|c| c == '\n' || c == '\t' || !controls_terminal(c)),
            "{shown:?}"
        );
        let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
        assert_eq!(value(&shown), value(document));
        assert_eq!(one_line("{\"a\":\n 1,\r\n\"b\":\"x\\ny\"}\n"), "{\"a\":  1,  \"b\":\"x\\ny\"}");
    }

    #[test]
    fn bytes_are_shown_in_the_largest_unit_that_they_fill() {
        let check = |bytes, words| assert_eq!(super::bytes(bytes), words);
        check(0, "0 bytes");
        check(1_023, "1023 bytes");
        check(1_024, "1.0 KiB");
        check((1 << 20) - 1, "1023.9 KiB");
        check(3 << 29, "1.5 GiB");
        check(u64::MAX, "17179869183.9 GiB");
    }
}
