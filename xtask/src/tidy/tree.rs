//! The files that the rules check, read once.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// A file of the checkout.
#[derive(Clone, Debug)]
pub(super) struct File {
    /// Path from the root, with forward slashes.
    pub(super) path: String,
    /// The whole text.
    pub(super) text: String,
}

impl File {
    /// Returns `true` if the file only holds tests: a `tests.rs`, or any file in a `tests` folder.
    pub(super) fn is_test(&self) -> bool {
        self.path.ends_with("/tests.rs") || self.path.contains("/tests/")
    }

    /// Returns `true` if a program wrote the file: any file in a `generated` folder.
    pub(super) fn is_generated(&self) -> bool {
        self.path.contains("/generated/")
    }
}

/// All Rust files, all members' manifests and all pages, sorted by path.
#[derive(Debug)]
pub(super) struct Tree {
    /// All `.rs` files below `crates/`, `deploy/`, `docs/` and `xtask/`.
    pub(super) sources: Vec<File>,
    /// All `.lua` files there.
    pub(super) scripts: Vec<File>,
    /// All `Cargo.toml` files there.
    pub(super) manifests: Vec<File>,
    /// All `.md` files at the root and below `docs/`.
    pub(super) pages: Vec<File>,
    /// All files and folders found there and at the root.
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
