//! Checks that every warning and every error of the log has a row in the troubleshooting page.

use super::Complaint;
use super::tree::File;

/// The page.
const PAGE: &str = "docs/operate/troubleshooting.md";
/// The macros that write such a line.
const MACROS: [&str; 2] = ["tracing::warn!(", "tracing::error!("];

/// Complains of log lines without a row. A line whose text is a variable cannot be checked.
pub(super) fn check(pages: &[File], sources: &[File]) -> Vec<Complaint> {
    let Some(page) = pages.iter().find(|page| page.path == PAGE) else {
        return Vec::new();
    };
    let products = sources.iter().filter(|source| source.path.contains("/src/"));
    let mut found = Vec::new();
    for source in products.filter(|source| !source.is_test()) {
        let code = source.text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        for (at, text) in MACROS.iter().flat_map(|name| texts(code, name)) {
            let is_checkable = text.starts_with(|first: char| first.is_alphanumeric());
            if is_checkable && !page.text.contains(&text) {
                let line = code[..at].lines().count();
                let text = format!("the log line `{text}` has no row in {PAGE}: add its cause");
                found.push(Complaint::at(&source.path, line, text));
            }
        }
    }
    found
}

/// Returns the places of a macro's calls, each with its text: the first one that is not the value of a
/// field.
fn texts<'a>(code: &'a str, name: &'a str) -> impl Iterator<Item = (usize, String)> + 'a {
    code.match_indices(name).filter_map(|(at, _)| {
        let parts: Vec<_> = code[at..].splitn(8, '"').collect();
        let mut texts = parts.chunks_exact(2);
        let text = texts.find(|pair| !pair[0].trim_end().ends_with('='))?[1];
        // A backslash at the end of a line joins it with the next one.
        let joined = text.split("\\\n").enumerate();
        let joined = joined.map(|(n, part)| if n == 0 { part } else { part.trim_start() });
        Some((at, joined.collect()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn warnings_need_a_row() {
        let code = "tracing::warn!(%error, \"checkpoint failed, \\\n    will retry\");\n\
                    tracing::error!(\"{reason}\");\ntracing::info!(\"started\");\n";
        let source = file("crates/a/src/lib.rs", code);
        let page = |text| [file(PAGE, text)];
        assert!(
            check(&page("| `checkpoint failed, will retry` |"), std::slice::from_ref(&source))
                .is_empty()
        );
        let found = check(&page("nothing"), &[source]);
        assert_eq!(found.len(), 1, "{found:?}");
    }
}
