//! Formats JSON text for readers. Members keep the order of the server.

/// Longest array or object on one line, in characters.
const LINE_MAX: usize = 76;

/// Returns the text with two spaces of indentation, or `None` if it is not JSON.
pub(super) fn indented(text: &str) -> Option<String> {
    serde_json::from_str::<serde_json::Value>(text).ok()?;
    let mut out = String::new();
    let tokens = tokens(text);
    write(&tokens, 0, &mut out);
    Some(out)
}

/// Splits JSON into punctuation and scalars.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let end = match first {
            '"' => string_end(rest),
            '{' | '}' | '[' | ']' | ',' | ':' => 1,
            _ => rest.find([',', '}', ']', ' ', '\n']).unwrap_or(rest.len()),
        };
        tokens.push(&rest[..end]);
        rest = rest[end..].trim_start();
    }
    tokens
}

fn string_end(text: &str) -> usize {
    let mut is_escaped = false;
    for (i, c) in text.char_indices().skip(1) {
        match c {
            '"' if !is_escaped => return i + 1,
            '\\' => is_escaped = !is_escaped,
            _ => is_escaped = false,
        }
    }
    text.len()
}

/// Writes one value, and returns its number of tokens.
fn write(tokens: &[&str], depth: usize, out: &mut String) -> usize {
    let length = value_length(tokens);
    let line = on_one_line(&tokens[..length]);
    if length == 1 || line.chars().count() + depth * 2 <= LINE_MAX {
        out.push_str(&line);
        return length;
    }
    let mut i = 1;
    out.push_str(tokens[0]);
    while i < length - 1 {
        out.push('\n');
        out.push_str(&"  ".repeat(depth + 1));
        if tokens.get(i + 1) == Some(&":") {
            out.push_str(tokens[i]);
            out.push_str(": ");
            i += 2;
        }
        i += write(&tokens[i..], depth + 1, out);
        if tokens[i] == "," {
            out.push(',');
            i += 1;
        }
    }
    out.push('\n');
    out.push_str(&"  ".repeat(depth));
    out.push_str(tokens[length - 1]);
    length
}

fn value_length(tokens: &[&str]) -> usize {
    let mut depth = 0;
    for (i, token) in tokens.iter().enumerate() {
        match *token {
            "{" | "[" => depth += 1,
            "}" | "]" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return i + 1;
        }
    }
    tokens.len()
}

fn on_one_line(tokens: &[&str]) -> String {
    tokens.iter().fold(String::new(), |mut line, token| {
        line.push_str(token);
        line.push_str(if matches!(*token, "," | ":") { " " } else { "" });
        line
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_values_stay_on_a_line_and_order_is_kept() {
        let text = r#"{"b":1,"a":[{},{"x":"a \"quote\", {"}]}"#;
        let line = r#"{"b": 1, "a": [{}, {"x": "a \"quote\", {"}]}"#;
        assert_eq!(indented(text).unwrap(), line);
        assert_eq!(indented("no JSON"), None);
    }

    #[test]
    fn long_values_have_a_line_for_each_member() {
        let long = "x".repeat(40);
        let text = format!(r#"{{"b":"{long}","a":{{"c":"{long}","d":[1,2]}}}}"#);
        let lines =
            format!("{{\n  \"b\": \"{long}\",\n  \"a\": {{\"c\": \"{long}\", \"d\": [1, 2]}}\n}}");
        assert_eq!(indented(&text).unwrap(), lines);
    }
}
