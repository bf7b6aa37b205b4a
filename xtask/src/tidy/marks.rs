//! Checks that no work is left for later, and that no test is switched off.
//!
//! The marks are concatenated from halves, so that this file does not complain of itself.

use super::Complaint;
use super::tree::File;

/// Marks that count as whole words.
const WORDS: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

/// Marks that count anywhere in a line.
const SNIPPETS: &[&str] =
    &[concat!("to", "do!("), concat!("unimple", "mented!("), concat!("#[ig", "nore")];

/// Complains of each line with a mark.
pub(super) fn check(source: &File) -> Vec<Complaint> {
    if source.is_generated() {
        return Vec::new();
    }
    let lines = source.text.lines().zip(1..);
    lines
        .filter_map(|(line, number)| {
            let mark = mark_in(line)?;
            let text = format!("`{mark}`: finish it, or leave it out and open an issue");
            Some(Complaint::at(&source.path, number, text))
        })
        .collect()
}

fn mark_in(line: &str) -> Option<&'static str> {
    let mut words = line.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    let word = words.find_map(|word| WORDS.iter().find(|mark| **mark == word));
    word.or_else(|| SNIPPETS.iter().find(|mark| line.contains(**mark))).copied()
}
