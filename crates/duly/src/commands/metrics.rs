//! `duly metrics`: the metrics of a server, without Prometheus.

use serde_json::{Map, Value, json};

use crate::{
    Outcome,
    output::{Table, Tone},
    session::Session,
};

/// Show the metrics of the server
///
/// The text for Prometheus is at /metrics of the server; the metrics are described there.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only metrics whose name contains this
    #[arg(value_name = "TEXT")]
    name: Option<String>,
}

/// One value.
#[derive(Debug, PartialEq)]
pub(super) struct Sample<'a> {
    pub(super) name: &'a str,
    pub(super) labels: Vec<(&'a str, String)>,
    pub(super) value: &'a str,
}

/// Runs the command.
pub(crate) async fn run(args: Args, session: &Session) -> Outcome {
    let response = session.http.root(&["metrics"]).send().await?;
    let wanted = args.name.as_deref().unwrap_or("");
    let samples = response.text.lines().filter_map(Sample::parse);
    let mut samples: Vec<_> = samples.filter(|sample| sample.name.contains(wanted)).collect();
    samples.sort_by(|one, other| one.order().cmp(&other.order()));
    let printer = session.printer;
    if printer.is_json() {
        return printer.json_list("metrics", samples.iter().map(Sample::json));
    }
    let headings = ["name", "labels", "value"];
    let mut table = Table::new(&headings).numbers(&["value"]);
    for sample in samples {
        let labels = sample.labels.iter().map(|(name, value)| format!("{name}={value}"));
        let labels: Vec<_> = labels.collect();
        let cells = [sample.name.to_owned(), labels.join(" "), sample.value.to_owned()];
        table.row(Tone::Plain, cells);
    }
    printer.table(&table)
}

impl<'a> Sample<'a> {
    /// Parses a line of the Prometheus text format; none for comments and lines that cannot be read.
    pub(super) fn parse(line: &'a str) -> Option<Self> {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            return None;
        }
        let end = line.find(['{', ' '])?;
        let (name, rest) = line.split_at(end);
        let (labels, rest) = match rest.strip_prefix('{') {
            Some(rest) => labels(rest)?,
            None => (Vec::new(), rest),
        };
        // A timestamp may follow the value.
        let value = rest.split_whitespace().next()?;
        Some(Self { name, labels, value })
    }

    /// Returns the order in lists: by name and labels. The buckets of a histogram stay in the order of the server.
    fn order(&self) -> (&str, Vec<&(&str, String)>) {
        let of_row = self.labels.iter().filter(|(name, _)| !matches!(*name, "le" | "quantile"));
        (self.name, of_row.collect())
    }

    fn json(&self) -> Value {
        let labels = self.labels.iter();
        let labels: Map<_, _> =
            labels.map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
        // A value that is no JSON number, such as +Inf, stays text.
        let value = serde_json::from_str::<serde_json::Number>(self.value);
        let value = value.map_or_else(|_| json!(self.value), Value::Number);
        json!({ "name": self.name, "labels": labels, "value": value })
    }
}

/// Returns the labels up to the closing `}`, and the rest of the line.
fn labels(mut rest: &str) -> Option<(Vec<(&str, String)>, &str)> {
    let mut labels = Vec::new();
    loop {
        rest = rest.trim_start_matches([',', ' ']);
        if let Some(rest) = rest.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (name, behind) = rest.split_once("=\"")?;
        let mut value = String::new();
        let mut chars = behind.char_indices();
        let end = loop {
            match chars.next()? {
                (at, '"') => break at,
                (_, '\\') => match chars.next()?.1 {
                    'n' => value.push('\n'),
                    c => value.push(c),
                },
                (_, c) => value.push(c),
            }
        };
        labels.push((name, value));
        rest = &behind[end + 1..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_sorted_and_buckets_stay_in_order() {
        let lines = [
            r#"b_bucket{lane="y",le="2"} 1"#,
            r#"b_bucket{lane="y",le="10"} 1"#,
            r#"b_bucket{lane="y",le="+Inf"} 1"#,
            r#"b_bucket{lane="x",le="9"} 1"#,
            "a 1",
        ];
        let mut samples: Vec<_> = lines.iter().filter_map(|line| Sample::parse(line)).collect();
        samples.sort_by(|one, other| one.order().cmp(&other.order()));
        let expected = [lines[4], lines[3], lines[0], lines[1], lines[2]];
        let expected: Vec<_> = expected.iter().filter_map(|line| Sample::parse(line)).collect();
        assert_eq!(samples, expected);
    }

    #[test]
    fn prometheus_lines_are_parsed_and_others_skipped() {
        for (line, expected) in [
            ("duly_deployment_due 5", Some(("duly_deployment_due", vec![], "5"))),
            (
                r#"a_total{x="1",y="a\"b}\\ \n"} 1.5e3 1700000000"#,
                Some(("a_total", vec![("x", "1"), ("y", "a\"b}\\ \n")], "1.5e3")),
            ),
            (r#"b_bucket{le="+Inf"} +Inf"#, Some(("b_bucket", vec![("le", "+Inf")], "+Inf"))),
            ("# HELP a b", None),
            ("", None),
            (r#"c{x="1"#, None),
            ("c{", None),
            ("c", None),
        ] {
            let expected = expected.map(|(name, labels, value)| Sample {
                name,
                labels: labels.into_iter().map(|(name, text)| (name, text.to_owned())).collect(),
                value,
            });
            assert_eq!(Sample::parse(line), expected, "{line}");
        }
        let infinite = Sample { name: "a", labels: vec![("le", "1".to_owned())], value: "+Inf" };
        assert_eq!(
            infinite.json(),
            json!({ "name": "a", "labels": { "le": "1" }, "value": "+Inf" })
        );
    }
}
