//! The files that the rules look at, read once.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// A file of the checkout.
#[derive(Clone, Debug)]
pub(super) struct File {
    /// From the root, with forward slashes.
    pub(super) path: String,
    /// The whole text.
    pub(super) text: String,
}

impl File {
    /// Whether the file only holds tests: a `tests.rs`, or anything in a `tests` folder.
    pub(super) fn is_test(&self) -> bool {
        self.path.ends_with("/tests.rs") || self.path.contains("/tests/")
    }

    /// Whether a program wrote the file: anything in a `generated` folder.
    pub(super) fn is_generated(&self) -> bool {
        self.path.contains("/generated/")
    }
}

/// All Rust files, all members' manifests and all pages, sorted by path.
#[derive(Debug)]
pub(super) struct Tree {
    /// Every `.rs` file below `crates/` and `xtask/`.
    pub(super) sources: Vec<File>,
    /// Every `.lua` file there.
    pub(super) scripts: Vec<File>,
    /// Every `Cargo.toml` there.
    pub(super) manifests: Vec<File>,
    /// Every `.md` file at the root and below `docs/`.
    pub(super) pages: Vec<File>,
    /// Every file and folder that was passed on the way.
    pub(super) paths: BTreeSet<String>,
}

impl Tree {
    /// Reads the checkout at `root`.
    pub(super) fn read(root: &Path) -> Result<Self> {
        let mut tree = Self {
            sources: Vec::new(),
            scripts: Vec::new(),
            manifests: Vec::new(),
            pages: Vec::new(),
            paths: BTreeSet::new(),
        };
        for entry in fs::read_dir(root).context("cannot read the root")? {
            let Ok(name) = entry?.file_name().into_string() else {
                continue;
            };
            if name.ends_with(".md") {
                let text = fs::read_to_string(root.join(&name))
                    .with_context(|| format!("cannot read {name}"))?;
                tree.pages.push(File { path: name.clone(), text });
            }
            tree.paths.insert(name);
        }
        for top in ["crates", "deploy", "docs", "xtask"] {
            tree.walk(root, top)?;
        }
        for list in [&mut tree.sources, &mut tree.manifests, &mut tree.pages] {
            list.sort_by(|a, b| a.path.cmp(&b.path));
        }
        Ok(tree)
    }

    fn walk(&mut self, root: &Path, folder: &str) -> Result<()> {
        let entries =
            fs::read_dir(root.join(folder)).with_context(|| format!("cannot read {folder}"))?;
        for entry in entries {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let path = format!("{folder}/{name}");
            self.paths.insert(path.clone());
            if entry.file_type()?.is_dir() {
                if name != "target" && !name.starts_with('.') {
                    self.walk(root, &path)?;
                }
                continue;
            }
            let list = if name.ends_with(".rs") {
                &mut self.sources
            } else if name.ends_with(".lua") {
                &mut self.scripts
            } else if name == "Cargo.toml" {
                &mut self.manifests
            } else if name.ends_with(".md") && path.starts_with("docs/") {
                &mut self.pages
            } else {
                continue;
            };
            let text =
                fs::read_to_string(entry.path()).with_context(|| format!("cannot read {path}"))?;
            list.push(File { path, text });
        }
        Ok(())
    }
}
