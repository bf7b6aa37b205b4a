//! The language of comments, names and pages: the rules of `CONTRIBUTING.md` that can be counted.
//!
//! 1. At most [`QUESTIONS_MAX`] percent of the doc comments begin with a question word: the first line says
//!    what an item is or does.
//! 2. No comment and no page has a word of [`WORDS`].
//! 3. No function has a name of more than [`NAME_MAX`] characters.
//! 4. No sentence of a page has more than [`SENTENCE_MAX`] words.
//!
//! Decision records and the changelog are history and stay as they are.

use super::Complaint;
use super::links::text_lines;
use super::tree::File;

/// Most doc comments that begin with a question word, in percent.
const QUESTIONS_MAX: usize = 2;

/// Longest name of a function, in characters.
const NAME_MAX: usize = 60;

/// Longest sentence of a page, in words.
const SENTENCE_MAX: usize = 40;

const QUESTIONS: &[&str] =
    &["what", "whether", "who", "whoever", "whose", "how", "where", "when", "why", "which"];

/// Words without a clear noun, put together from halves so that this file has none of them.
const WORDS: &[&str] = &[
    concat!("who", "ever"),
    concat!("no", "body"),
    concat!("some", "body"),
    concat!("so ", "many"),
    concat!("an", "ew"),
    concat!("the ", "like"),
];

/// Complains of what breaks the rules.
pub(super) fn check(sources: &[File], pages: &[File]) -> Vec<Complaint> {
    let written = || sources.iter().filter(|source| !source.is_generated());
    let mut found = questions(written());
    for source in written() {
        for (line, number) in source.text.lines().zip(1..) {
            let line = line.trim_start();
            if line.starts_with("//") {
                found.extend(word_in(line).map(|word| banned_word(source, number, word)));
            }
            if let Some(name) = long_name(line) {
                let text = format!("`{name}` is longer than {NAME_MAX} characters: shorten it");
                found.push(Complaint::at(&source.path, number, text));
            }
        }
    }
    let is_history =
        |page: &&File| page.path == "CHANGELOG.md" || page.path.starts_with("docs/adr/");
    for page in pages.iter().filter(|page| !is_history(page)) {
        for (line, number) in text_lines(&page.text) {
            found.extend(word_in(line).map(|word| banned_word(page, number, word)));
        }
        found.extend(sentences(page));
    }
    found
}

fn banned_word(file: &File, number: usize, word: &str) -> Complaint {
    Complaint::at(&file.path, number, format!("`{word}`: name who or what is meant"))
}

/// Complains once of all doc comments that begin with a question word, if they are too many.
fn questions<'a>(sources: impl Iterator<Item = &'a File>) -> Vec<Complaint> {
    let (mut count, mut places) = (0, Vec::new());
    for source in sources {
        for (doc, number) in first_lines(&source.text) {
            count += 1;
            let first: String = doc.chars().take_while(|c| c.is_alphabetic()).collect();
            if QUESTIONS.contains(&&*first.to_lowercase()) {
                places.push(Complaint::at(&source.path, number, format!("begins with `{first}`")));
            }
        }
    }
    if places.len() * 100 <= count * QUESTIONS_MAX {
        return Vec::new();
    }
    let text = format!(
        "{} of {count} doc comments begin with a question word, more than {QUESTIONS_MAX} %: say what the \
         item is or does",
        places.len()
    );
    places.insert(0, Complaint::about("crates", text));
    places
}

/// Returns the first line of each doc comment, with its number.
fn first_lines(text: &str) -> impl Iterator<Item = (&str, usize)> {
    let mut before = "";
    text.lines().map(str::trim_start).zip(1..).filter_map(move |(line, number)| {
        let mark = ["///", "//!"].into_iter().find(|mark| line.starts_with(mark));
        let is_first = mark.is_some_and(|mark| !before.starts_with(mark));
        before = line;
        is_first.then(|| (line[3..].trim(), number))
    })
}

fn word_in(line: &str) -> Option<&'static str> {
    let line = line.to_lowercase();
    let is_whole = |at: usize, word: &str| {
        let around = (line[..at].chars().next_back(), line[at + word.len()..].chars().next());
        !matches!(around, (Some(c), _) | (_, Some(c)) if c.is_alphanumeric() || c == '_')
    };
    let occurs = |word: &str| line.match_indices(word).any(|(at, _)| is_whole(at, word));
    WORDS.iter().find(|word| occurs(word)).copied()
}

fn long_name(line: &str) -> Option<&str> {
    let rest = line.split_once("fn ").filter(|(before, _)| is_signature(before))?.1;
    let name = rest.split(|c: char| !(c.is_alphanumeric() || c == '_')).next()?;
    (name.len() > NAME_MAX).then_some(name)
}

/// Returns `true` for the words that may stand before `fn`.
fn is_signature(before: &str) -> bool {
    let mut words = before.split_whitespace();
    words.all(|word| matches!(word, "const" | "async" | "unsafe") || word.starts_with("pub"))
}

/// Complains of long sentences. A paragraph, an entry of a list and a cell of a table end a sentence, too.
fn sentences(page: &File) -> Vec<Complaint> {
    let (mut found, mut words, mut begin) = (Vec::new(), 0, 0);
    let mut last = 0;
    for (line, number) in text_lines(&page.text) {
        let line = line.trim();
        let begins_item = line.starts_with(['#', '|', '-', '*', '>']) || is_numbered(line);
        if line.is_empty() || begins_item || number != last + 1 {
            words = 0;
        }
        last = number;
        for word in line.split_whitespace() {
            if word.starts_with('|') {
                words = 0;
                continue;
            }
            begin = if words == 0 { number } else { begin };
            words += 1;
            if words == SENTENCE_MAX + 1 {
                let text = format!("a sentence of more than {SENTENCE_MAX} words: make two of it");
                found.push(Complaint::at(&page.path, begin, text));
            }
            if word.trim_end_matches(['*', ')', '"', '`']).ends_with(['.', '!', '?', ':', ';']) {
                words = 0;
            }
        }
    }
    found
}

fn is_numbered(line: &str) -> bool {
    line.split_once(". ").is_some_and(|(number, _)| number.bytes().all(|c| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        let file = File { path: path.to_owned(), text: text.to_owned() };
        let file = std::slice::from_ref(&file);
        if path.ends_with(".md") { check(&[], file).len() } else { check(file, &[]).len() }
    }

    #[test]
    fn doc_comments_say_what_an_item_is() {
        assert_eq!(found("crates/x/src/a.rs", "//! Jobs.\n\n/// Returns it.\n/// What else.\n"), 0);
        assert_eq!(found("crates/x/src/a.rs", "/// Whether it is.\n"), 2);
        assert_eq!(found("crates/x/src/generated/a.rs", "/// Whether it is.\n"), 0);
    }

    #[test]
    fn words_without_a_noun_are_found() {
        for (line, count) in [("No body.", 0), (concat!("No", "body."), 1), ("newer", 0)] {
            assert_eq!(found("crates/x/src/a.rs", &format!("// {line}\n")), count, "{line}");
            assert_eq!(found("docs/a.md", &format!("{line}\n")), count, "{line}");
        }
        assert_eq!(found("crates/x/src/a.rs", concat!("let no", "body = 1;")), 0);
    }

    #[test]
    fn names_of_functions_are_short() {
        let name = "a".repeat(NAME_MAX);
        assert_eq!(
            found("crates/x/src/a.rs", &format!("    pub(crate) async fn {name}() {{\n")),
            0
        );
        assert_eq!(found("crates/x/src/a.rs", &format!("fn {name}b() {{\n")), 1);
        assert_eq!(found("crates/x/src/a.rs", &format!("let x = \"fn {name}b\";\n")), 0);
    }

    #[test]
    fn sentences_of_pages_are_short() {
        let long = "word ".repeat(SENTENCE_MAX);
        for (text, count) in [
            (format!("{long}\nend.\n"), 1),
            (format!("{long}\n\nend.\n"), 0),
            (format!("{long}\n- end.\n"), 0),
            (format!("{long}end. Next.\n"), 1),
            (format!("{} end. {long}\n", "word ".repeat(9)), 0),
            (format!("```\n{long}{long}\n```\n"), 0),
            (format!("| {long} | {long} |\n"), 0),
        ] {
            assert_eq!(found("docs/a.md", &text), count, "{text}");
        }
    }
}
