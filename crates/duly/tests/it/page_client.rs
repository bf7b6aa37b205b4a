//! The Ruby client that is written from the HTTP reference alone, against a real server.

use std::path::PathBuf;

use crate::{
    harness::{Server, program},
    tools,
};

#[test]
fn a_client_written_from_the_reference_works() {
    if !tools::are_there("tour.rb", &["ruby"]) {
        return;
    }
    let server = Server::start();
    let tour =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/client/tour.rb");
    let output = program("ruby").arg("-w").arg(tour).arg(&server.url).output();
    let output = output.expect("ruby starts");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && stderr.is_empty(), "{stderr}");
    let expected = "\
scheduled order/1041 ü scheduled, revision 1
the same request again: existing true
read order 1041
changed to 2035-01-31T11:00:00.000Z, revision 2
refused: revision_mismatch, 2 is its revision
cancel: cancelled
cancel again: already true
batch: n1 n2 n3 n4 n5 not_found n5
listed: n5 n1 n2 n3 n4
leased: n5, attempt 1
settled: ok invalid_token
resource_exhausted: waited, true
both: 2
";
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
}
