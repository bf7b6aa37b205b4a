//! Rewrites the HTTP advice in a server's texts into commands.
//!
//! A server writes its texts for callers over HTTP: `PUT /v1/namespaces/orders`, `?force=true`, headers. A user of
//! the command line gets the command or the option instead. Other texts stay as they are.

use std::borrow::Cow;

/// Methods that begin a request in a text.
const METHODS: [&str; 5] = ["GET", "PUT", "POST", "PATCH", "DELETE"];

/// The command for each request: its method and path, in which `*` stands for one segment, and the command, in
/// which `{}` stands for that segment.
const REQUESTS: [(&str, &str, &str); 6] = [
    ("GET", "/openapi.json", "duly openapi"),
    ("GET", "/v1/keys", "duly key list"),
    ("GET", "/v1/namespaces", "duly namespace list"),
    ("PUT", "/v1/namespaces/*", "duly namespace put {}"),
    ("GET", "/v1/tenants", "duly tenant list"),
    ("GET", "…/timers?state=dead", "duly dead list"),
];

/// The option for each query parameter.
const PARAMETERS: [(&str, &str); 1] = [("?force=true", "`--force`")];

/// Words of HTTP, and the words for the command line.
const PHRASES: [(&str, &str); 1] = [("the key in authorization, ", "the key ")];

/// The beginning of a header in a text, the mark of the options that stand for it, and the end of these.
const HEADER: [&str; 3] = [" in the header '", "' (commands: ", ")"];

/// Values of a field, and the options of a command that schedules one timer.
const OPTIONS: [(&str, &str); 2] = [
    ("if_exists is \"keep\"", "--if-exists is keep"),
    ("if_exists \"restart\"", "--if-exists restart"),
];

/// Returns a notice with commands and options in place of HTTP and fields.
pub(super) fn for_note(notice: &str) -> String {
    let notice = for_commands(notice).into_owned();
    OPTIONS.iter().fold(notice, |notice, (words, own)| notice.replace(words, own))
}

/// Returns the text with commands and options in place of HTTP.
pub(crate) fn for_commands(text: &str) -> Cow<'_, str> {
    let mut rewritten = Cow::Borrowed(text);
    while let Some((at, length, command)) = request(&rewritten) {
        rewritten.to_mut().replace_range(at..at + length, &format!("`{command}`"));
    }
    for (words, own) in PARAMETERS.iter().chain(&PHRASES) {
        if rewritten.contains(words) {
            rewritten = rewritten.replace(words, own).into();
        }
    }
    while let Some((at, length, options)) = header(&rewritten) {
        let options = format!(" ({options})");
        rewritten.to_mut().replace_range(at..at + length, &options);
    }
    rewritten
}

/// Returns the place and the length of the first request that has a command, and the command.
fn request(text: &str) -> Option<(usize, usize, String)> {
    METHODS.iter().find_map(|method| {
        let mut begins = text.match_indices(method).map(|(at, _)| at);
        begins.find_map(|at| {
            let path = text[at + method.len()..].strip_prefix(' ')?;
            let end = path.find([' ', ',', ';', ')', '\n', '"']).unwrap_or(path.len());
            let path = path[..end].trim_end_matches([':', '.']);
            let command = command(method, path)?;
            Some((at, method.len() + 1 + path.len(), command))
        })
    })
}

/// Returns the command for a request.
fn command(method: &str, path: &str) -> Option<String> {
    REQUESTS.iter().filter(|(of, ..)| *of == method).find_map(|(_, pattern, command)| {
        let (before, is_open) = match pattern.strip_suffix('*') {
            Some(before) => (before, true),
            None => (*pattern, false),
        };
        let segment = path.strip_prefix(before)?;
        let fits = if is_open {
            !segment.is_empty() && !segment.contains('/')
        } else {
            segment.is_empty()
        };
        fits.then(|| command.replace("{}", segment))
    })
}

/// Returns the place and the length of the first header with its options, and the options.
fn header(text: &str) -> Option<(usize, usize, String)> {
    let [begin, mark, end] = HEADER;
    let at = text.find(begin)?;
    let (header, rest) = text[at + begin.len()..].split_once(mark)?;
    let (options, _) = rest.split_once(end)?;
    let length = begin.len() + header.len() + mark.len() + options.len() + end.len();
    Some((at, length, options.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    #[test]
    fn requests_parameters_and_headers_become_commands() {
        for (text, expected) in [
            (
                "there is no namespace \"a\": check the name (GET /v1/namespaces lists all), or create it with \
                 PUT /v1/namespaces/a",
                "there is no namespace \"a\": check the name (`duly namespace list` lists all), or create it with \
                 `duly namespace put a`",
            ),
            ("purge them, or repeat with ?force=true", "purge them, or repeat with `--force`"),
            (
                "no \"x\": GET …/timers?state=dead lists them",
                "no \"x\": `duly dead list` lists them",
            ),
            (
                "nothing at \"/v1\": GET /openapi.json lists every path",
                "nothing at \"/v1\": `duly openapi` lists every path",
            ),
            (
                "send a key in the header 'authorization: Bearer duly_…' (commands: --key-file, or DULY_API_KEY_FILE), \
                 or a signed token in the header 'authorization: Bearer …' (commands: --key-file)",
                "send a key (--key-file, or DULY_API_KEY_FILE), or a signed token (--key-file)",
            ),
            ("the key in authorization, abc, permits read", "the key abc, permits read"),
            ("GET well soon", "GET well soon"),
            ("POST /v1/other: later", "POST /v1/other: later"),
        ] {
            assert_eq!(for_commands(text), expected);
        }
    }

    /// Returns the lines of a folder's sources that are neither comments nor tests.
    fn lines(folder: &Path, found: &mut Vec<String>) {
        for entry in fs::read_dir(folder).expect("a folder").flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            if path.is_dir() && name != "tests" {
                lines(&path, found);
            } else if name.ends_with(".rs") && !matches!(&*name, "tests.rs" | "attacks.rs") {
                let text = fs::read_to_string(&path).expect("a source");
                let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
                let code = code.lines().map(str::trim_start).filter(|line| !line.starts_with("//"));
                found.extend(code.map(|line| format!("{}: {line}", path.display())));
            }
        }
    }

    #[test]
    fn every_http_advice_of_the_server_has_a_command() {
        let mut all = Vec::new();
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        for name in [
            "duly-api",
            "duly-core",
            "duly-server",
            "duly-store",
            "duly-store-embedded",
            "duly-store-redis",
        ] {
            lines(&crates.join(name).join("src"), &mut all);
        }
        let is_http = |line: &str| {
            let is_request = |method: &&str| {
                ["/", "…"].iter().any(|path| line.contains(&format!("{method} {path}")))
            };
            let is_parameter = line.split(" ?").skip(1).any(|rest| {
                let name = rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
                name.starts_with('=') && name.len() < rest.len()
            });
            METHODS.iter().any(is_request) || is_parameter
        };
        let advice: Vec<_> = all.iter().filter(|line| is_http(line)).collect();
        assert!(advice.len() >= REQUESTS.len(), "the sources have the texts: {advice:#?}");
        let left: Vec<_> = advice.iter().filter(|line| is_http(&for_commands(line))).collect();
        assert!(left.is_empty(), "add the command for each to the tables: {left:#?}");
    }
}
