use super::*;

#[test]
fn too_many_open_files_are_a_shortage_of_the_process() {
    let sorted = |errno: Errno| {
        let (operation, directory, name) = (Operation::Open, "/data", "journal/7.log");
        Error::from_io(At { operation, directory, name }, errno.into())
    };
    for (errno, is_shortage) in [
        (Errno::MFILE, true),
        (Errno::NFILE, true),
        (Errno::NOMEM, true),
        (Errno::IO, false),
        (Errno::NOENT, false),
        (Errno::ACCESS, false),
    ] {
        assert_eq!(sorted(errno).is_shortage(), is_shortage, "{errno:?}");
    }
    let text = sorted(Errno::MFILE).to_string();
    assert!(text.starts_with("cannot open /data/journal/7.log: too many files"), "{text}");
}
