//! History as a file: one JSON document, readable with `jq`, and input for another check.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::Path;

use super::History;

/// Writes the history.
pub fn save(history: &History, path: &Path) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    serde_json::to_writer(&mut out, history)?;
    out.flush()
}

/// Reads a history back.
pub fn load(path: &Path) -> io::Result<History> {
    Ok(serde_json::from_reader(BufReader::new(File::open(path)?))?)
}
