//! The directories of a simulated disk: the live names, and the names that the platter holds.
//!
//! 1. Every change of a name waits in `pending`, in order, until its directory is synced.
//! 2. A power loss keeps a prefix of the pending changes of each directory.
//! 3. A rename across two directories is one change of both. It survives completely or not at all. If it
//!    is lost, so are all later changes in both directories.

use std::collections::{BTreeMap, BTreeSet};

use rand::Rng;
use rand::rngs::SmallRng;

/// Number of a file, independent of its names.
pub(super) type Inode = u64;

#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    live: Tree,
    platter: Tree,
    pending: Vec<NameChange>,
}

/// Full file names and the directories below the root.
#[derive(Clone, Debug, Default)]
struct Tree {
    files: BTreeMap<String, Inode>,
    dirs: BTreeSet<String>,
}

#[derive(Clone, Debug)]
enum NameChange {
    Link { name: String, inode: Inode },
    Unlink { name: String },
    Rename { from: String, to: String, inode: Inode },
    MakeDir { dir: String },
}

impl Names {
    pub(super) fn inode(&self, name: &str) -> Option<Inode> {
        self.live.files.get(name).copied()
    }

    pub(super) fn has_dir(&self, dir: &str) -> bool {
        dir.is_empty() || self.live.dirs.contains(dir)
    }

    /// Returns `true` if this name is a directory's; the root is not counted.
    pub(super) fn is_dir(&self, name: &str) -> bool {
        self.live.dirs.contains(name)
    }

    pub(super) fn files(&self) -> impl Iterator<Item = (&str, Inode)> {
        self.live.files.iter().map(|(name, inode)| (name.as_str(), *inode))
    }

    /// Returns the files and directories right within `dir`, sorted.
    pub(super) fn within(&self, dir: &str) -> Vec<String> {
        let files = self.live.files.keys().filter(|name| parent(name) == dir);
        let dirs = self.live.dirs.iter().filter(|_| dir.is_empty());
        let mut names: Vec<String> = files.chain(dirs).map(|name| base(name).to_owned()).collect();
        names.sort_unstable();
        names
    }

    pub(super) fn link(&mut self, name: &str, inode: Inode) {
        self.change(NameChange::Link { name: name.to_owned(), inode });
    }

    pub(super) fn unlink(&mut self, name: &str) {
        self.change(NameChange::Unlink { name: name.to_owned() });
    }

    pub(super) fn rename(&mut self, from: &str, to: &str, inode: Inode) {
        self.change(NameChange::Rename { from: from.to_owned(), to: to.to_owned(), inode });
    }

    pub(super) fn make_dir(&mut self, dir: &str) {
        self.change(NameChange::MakeDir { dir: dir.to_owned() });
    }

    /// Gives a file a name that is durable at once.
    pub(super) fn link_durably(&mut self, name: &str, inode: Inode) {
        let change = NameChange::Link { name: name.to_owned(), inode };
        self.live.apply(&change);
        self.platter.apply(&change);
    }

    /// Makes the pending changes of `dir` durable, and the changes in other directories that they depend
    /// on.
    pub(super) fn sync(&mut self, dir: &str) {
        for change in self.take_pending(dir) {
            self.platter.apply(&change);
        }
    }

    /// Fails a sync with EIO: a prefix of the pending changes got through, the rest never will.
    pub(super) fn fail_sync(&mut self, dir: &str, rng: &mut SmallRng) {
        let waiting = self.take_pending(dir);
        let arrived = rng.random_range(0..=waiting.len());
        for change in &waiting[..arrived] {
            self.platter.apply(change);
        }
    }

    /// Returns the names as they are found after a power loss.
    pub(super) fn settle(&self, rng: &mut SmallRng) -> Self {
        let mut tree = self.platter.clone();
        let mut budgets: BTreeMap<&str, usize> = BTreeMap::new();
        for dir in self.pending.iter().flat_map(NameChange::dirs) {
            *budgets.entry(dir).or_default() += 1;
        }
        for budget in budgets.values_mut() {
            *budget = rng.random_range(0..=*budget);
        }
        for change in &self.pending {
            let survives = change.dirs().all(|dir| budgets[dir] > 0);
            for dir in change.dirs() {
                let left = if survives { budgets[dir] - 1 } else { 0 };
                budgets.insert(dir, left);
            }
            if survives {
                tree.apply(change);
            }
        }
        let Tree { files, dirs } = &mut tree;
        files.retain(|name, _| parent(name).is_empty() || dirs.contains(parent(name)));
        Self { live: tree.clone(), platter: tree, pending: Vec::new() }
    }

    /// Returns the files that a name leads to, now or after a power loss.
    pub(super) fn reachable(&self) -> BTreeSet<Inode> {
        let named = self.live.files.values().chain(self.platter.files.values()).copied();
        named.chain(self.pending.iter().filter_map(NameChange::inode)).collect()
    }

    fn change(&mut self, change: NameChange) {
        self.live.apply(&change);
        self.pending.push(change);
    }

    fn take_pending(&mut self, dir: &str) -> Vec<NameChange> {
        let mut synced = BTreeSet::from([dir.to_owned()]);
        let (mut taken, mut kept) = (Vec::new(), Vec::new());
        for change in self.pending.drain(..).rev() {
            if change.dirs().any(|dir| synced.contains(dir)) {
                synced.extend(change.dirs().map(str::to_owned));
                taken.push(change);
            } else {
                kept.push(change);
            }
        }
        kept.reverse();
        taken.reverse();
        self.pending = kept;
        taken
    }
}

impl Tree {
    fn apply(&mut self, change: &NameChange) {
        match change {
            NameChange::Link { name, inode } => {
                self.files.insert(name.clone(), *inode);
            }
            NameChange::Unlink { name } => {
                self.files.remove(name);
            }
            NameChange::Rename { from, to, inode } => {
                self.files.remove(from);
                self.files.insert(to.clone(), *inode);
            }
            NameChange::MakeDir { dir } => {
                self.dirs.insert(dir.clone());
            }
        }
    }
}

impl NameChange {
    /// Returns the directories in which this changes a name, each once.
    fn dirs(&self) -> impl Iterator<Item = &str> {
        let (first, second) = match self {
            Self::Link { name, .. } | Self::Unlink { name } => (parent(name), None),
            Self::Rename { from, to, .. } => (parent(from), Some(parent(to))),
            Self::MakeDir { .. } => ("", None),
        };
        std::iter::once(first).chain(second.filter(move |dir| *dir != first))
    }

    fn inode(&self) -> Option<Inode> {
        match self {
            Self::Link { inode, .. } | Self::Rename { inode, .. } => Some(*inode),
            Self::Unlink { .. } | Self::MakeDir { .. } => None,
        }
    }
}

fn parent(name: &str) -> &str {
    name.split_once('/').map_or("", |(dir, _)| dir)
}

fn base(name: &str) -> &str {
    name.split_once('/').map_or(name, |(_, base)| base)
}
