//! The example file is current and complete, and its statements are true.

use super::*;

fn committed() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/duly.toml")
}

/// Returns the example with every key switched on, as its opening describes.
fn switched_on() -> String {
    let is_key = |line: &&str| line.starts_with('#') && !line.starts_with("# ") && *line != "#";
    let lines = example_toml();
    let lines = lines.lines().map(|line| if is_key(&line) { &line[1..] } else { line });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_example_file_is_current() {
    let path = committed();
    let text = example_toml();
    if std::env::var_os("DULY_REGENERATE").is_some() {
        fs::write(&path, &text).unwrap();
    }
    assert!(
        fs::read_to_string(&path).unwrap_or_default() == text,
        "docs/reference/duly.toml is stale: run the test again with DULY_REGENERATE=1"
    );
}

#[test]
fn the_example_file_as_it_is_changes_nothing() {
    let (_keep, source) = file(&example_toml());
    let config = load(&source).unwrap();
    assert!(config.effective().all(|(_, effective)| effective.origin == Origin::Default));
    assert_eq!(config, load(&Source::default()).unwrap());
}

#[test]
fn every_key_of_the_example_file_switched_on_is_its_default() {
    let (_keep, source) = file(&switched_on());
    let config = load(&source).unwrap();
    let defaults = load(&Source::default()).unwrap();
    for ((key, found), (_, default)) in config.effective().zip(defaults.effective()) {
        assert!(matches!(found.origin, Origin::File { .. }), "{} is not set", key.name);
        assert_eq!(found.value, default.value, "{}", key.name);
    }
    assert_eq!(
        (config.server, config.store, config.delivery, config.webhook),
        (defaults.server, defaults.store, defaults.delivery, defaults.webhook)
    );
    assert_eq!(
        (config.defaults, config.log, config.drain),
        (defaults.defaults, defaults.log, defaults.drain)
    );
}

#[test]
fn the_example_file_says_of_each_key_what_it_is() {
    let text = example_toml();
    assert!(text.lines().all(|line| line.chars().count() <= 100), "a line is too long");
    // Wrapped lines are joined again.
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let flat = words(&text.replace("\n#  ", " ").replace("\n# ", " "));
    for key in &*KEYS {
        for part in [&key.doc, &key.allowed, &key.variable()] {
            assert!(flat.contains(&words(part)), "{}: {part}", key.name);
        }
    }
}
