//! Text of others made fit for a terminal.

/// One line without control or direction characters, cut to `chars_max` characters.
pub(crate) fn preview(text: &str, chars_max: usize) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    for c in chars.by_ref().take(chars_max) {
        if c.is_control() || is_direction_mark(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    if chars.next().is_some() {
        out.push('…');
    }
    out
}

/// `1 namespace`, `2 namespaces`.
pub(crate) fn count(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Characters that reorder what stands around them.
fn is_direction_mark(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A preview of bytes: as text where they are UTF-8, else their number.
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
    fn one_is_not_many() {
        let counts = [0, 1, 2].map(|number| count(number, "dead letter"));
        assert_eq!(counts, ["0 dead letters", "1 dead letter", "2 dead letters"]);
    }

    #[test]
    fn previews_cannot_drive_the_terminal() {
        assert_eq!(preview("a\u{1b}[2Jb\n", 20), "a\\u{1b}[2Jb\\n");
        assert_eq!(preview("\u{202e}x", 20), "\\u{202e}x");
        assert_eq!(preview("größe", 3), "grö…");
        assert_eq!(preview("abc", 3), "abc");
        assert_eq!(preview_bytes(&[0xff, 0], 9), "(2 bytes, not text)");
        assert_eq!(preview_bytes(b"", 9), "(empty)");
    }
}
