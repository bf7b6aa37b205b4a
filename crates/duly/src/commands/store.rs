//! `duly store`: checks, backs up, restores and repairs stores.
//!
//! 1. `check` and `restore` work on directories that no server has open.
//! 2. `backup` calls the server that has the directory open.
//! 3. `repair` calls a server that keeps its timers on Redis, or works on its store beside servers.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use clap::{ArgGroup, Subcommand};
use duly_api::cluster::{Backup, BackupMade, Repair, Repaired, RepairedShard};
use duly_store_embedded::{
    OpenError, access_file,
    backup::{self, BackupError},
    check, disk,
};
use reqwest::Method;
use serde_json::json;

use crate::{
    Outcome, configured,
    failure::Failure,
    open_files,
    output::{Printer, Progress, text, warn},
    runtime::block_on,
    session::Session,
};

/// Time limit of a backup or repair, long enough for any size and any number of namespaces.
const TIME_LIMIT: Duration = Duration::from_secs(24 * 3_600);

/// Check, back up, restore and repair stores
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Read and verify everything in a data directory; nothing is changed
    ///
    /// No server may have it open. Exit code 1 if anything is damaged; the leftovers of a crash are no
    /// damage.
    Check {
        /// The data directory
        #[arg(long, value_name = "DIR", default_value = "./duly-data")]
        data: PathBuf,
    },
    /// Copy the store of the running server into another directory
    ///
    /// The server continues to work. The directory must be empty or new, and below the server's
    /// `store.backup_dir`. On the same file system nearly all files are hard links.
    Backup {
        /// The directory, on the server's machine
        path: PathBuf,
    },
    /// Accept that shards of a store on Redis lost data, or decide which keys count after a rollback
    ///
    /// A shard that was emptied gets its marker and the settings of namespaces from the other shards;
    /// its timers are gone. A shard that came back with older data is confirmed. Restore the Redis
    /// server from a backup first if you have one.
    ///
    /// After all masters came back with older data, running nodes know newer keys and tenants. They refuse
    /// changes until an administrator decides at one of them with --keys.
    #[command(group(ArgGroup::new("repaired").args(["shards", "keys"]).required(true).multiple(true)))]
    Repair {
        /// Numbers of the shards, as in the error
        #[arg(long = "shard", value_name = "N,…", value_delimiter = ',')]
        shards: Vec<u16>,
        /// Remedy for keys and tenants that were rolled back
        #[arg(long, value_name = "REMEDY", conflicts_with = "config")]
        keys: Option<Remedy>,
        /// The configuration file of a server: the shards are repaired in its store (store.url), also
        /// beside running servers. No server is called
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
    },
    /// Create a data directory from a backup, with every namespace paused
    ///
    /// The backup is not changed. Nothing fires from the restored directory until its namespaces are
    /// resumed: `duly resume --all`, or one by one. With `--overdue dead` the timers that are due by
    /// then become dead letters.
    Restore {
        /// The backup
        #[arg(long, value_name = "BACKUP")]
        from: PathBuf,
        /// The data directory; it must be empty or new
        #[arg(long, value_name = "DIR")]
        data: PathBuf,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Remedy {
    /// Write back those that the node knows: revoked keys stay revoked
    WriteBack,
    /// Accept those in the store: keys that were revoked or deleted since work again
    Accept,
}

/// Runs the command.
pub(crate) fn run(
    args: Args,
    printer: Printer,
    session: impl FnOnce() -> Result<Session, Failure>,
) -> Outcome {
    open_files::raise_limit();
    match args.action {
        Action::Check { data } => check(&data, printer),
        Action::Backup { path } => block_on(backup(&path, &session()?)),
        Action::Repair { shards, keys, config: None } => {
            block_on(repair(shards, keys, &session()?))
        }
        Action::Repair { shards, config: Some(file), .. } => {
            let repaired = block_on(repair_in_store(shards, &file))?;
            let document = serde_json::to_string(&repaired).expect("messages are JSON");
            printer.document(&document, || Ok(format!("{}\n", outcomes(repaired))))
        }
        Action::Restore { from, data } => restore(&from, &data, printer),
    }
}

fn check(data: &Path, printer: Printer) -> Outcome {
    let mut progress = Progress::new(printer);
    let mut show =
        |at: check::Progress| progress.show_bytes(at.what, at.bytes_done, at.bytes_total);
    let report = check::check(data, &mut show).map_err(|error| match error {
        OpenError::Disk(disk::Error::NotFound { .. }) => {
            Failure::new(format_args!("{error}: name the directory with --data"))
        }
        error => Failure::new(error),
    })?;
    progress.clear();
    let mut document = json!(report);
    document["is_clean"] = report.is_clean().into();
    printer.document(&document.to_string(), || Ok(text::lines(&report.to_string())))?;
    if report.is_clean() {
        return Ok(());
    }
    Err(Failure::coded(
        "damaged",
        format_args!(
            "{} is damaged: see above; lost data can be restored only from a backup (`duly store \
             restore`)",
            data.display()
        ),
    ))
}

async fn backup(path: &Path, session: &Session) -> Outcome {
    let path = std::path::absolute(path)
        .map_err(|error| Failure::new(format_args!("{}: {error}", path.display())))?;
    let Some(path) = path.to_str() else {
        return Err(Failure::usage(format_args!("{} is not UTF-8", path.display())));
    };
    let call = session.http.service(Method::POST, &["store", "backup"]);
    let call = call.body(&Backup { path: path.to_owned() }).waiting(TIME_LIMIT);
    let made = |BackupMade { path, files, bytes, .. }: BackupMade| {
        let (path, bytes) = (text::line(&path), text::bytes(bytes));
        format!("{path}  backed up: {files} files, {bytes}")
    };
    session.print(call, made).await
}

async fn repair(shards: Vec<u16>, keys: Option<Remedy>, session: &Session) -> Outcome {
    let call = session.http.service(Method::POST, &["store", "repair"]);
    let keys = keys.map(|remedy| match remedy {
        Remedy::WriteBack => "write_back".to_owned(),
        Remedy::Accept => "accept".to_owned(),
    });
    let call = call.body(&Repair { shards, keys }).waiting(TIME_LIMIT);
    session.print(call, outcomes).await
}

/// Repairs shards in the store of a configuration file. Names the others that cannot be asked.
async fn repair_in_store(shards: Vec<u16>, file: &Path) -> Result<Repaired, Failure> {
    let store = configured::open_shared(file).await?;
    let health = store.health();
    let others = health.unavailable_shards.iter().map(|(shard, _)| shard.0);
    let others: Vec<_> =
        others.filter(|shard| !shards.contains(shard)).map(|it| it.to_string()).collect();
    if !others.is_empty() {
        health.warnings.iter().for_each(|warning| warn(warning));
        warn(&format!(
            "shard {} cannot be asked now: the latest changes of keys and tenants may be missing in the repaired \
             shards until it replies",
            others.join(",")
        ));
    }
    let deployment = store.deployment().expect("servers share it");
    duly_server::repair_shards(deployment, shards).await.map_err(Failure::new)
}

/// Returns the results of a repair, one on each line.
fn outcomes(Repaired { shards, keys }: Repaired) -> String {
    let keys = keys.map(|outcome| match outcome.as_str() {
        "written_back" => "keys and tenants  written back as this node knew them".to_owned(),
        "accepted" => "keys and tenants  accepted as the store had them".to_owned(),
        _ => "keys and tenants  nothing to repair: this node knows none that the store lacks"
            .to_owned(),
    });
    shards.iter().map(outcome).chain(keys).collect::<Vec<_>>().join("\n")
}

/// Returns the result of a shard's repair, on one line.
fn outcome(repaired: &RepairedShard) -> String {
    let shard = repaired.shard;
    match (repaired.outcome.as_str(), repaired.behind_ms, repaired.namespaces) {
        ("restored", _, Some(namespaces)) => {
            format!("shard {shard}  restored, {namespaces} namespaces; its timers are gone")
        }
        ("confirmed", Some(behind_ms), _) => {
            format!("shard {shard}  confirmed: changes of {behind_ms} ms are gone")
        }
        _ => format!("shard {shard}  already in service"),
    }
}

fn restore(from: &Path, data: &Path, printer: Printer) -> Outcome {
    let mut progress = Progress::new(printer);
    let mut show =
        |at: check::Progress| progress.show_bytes(at.what, at.bytes_done, at.bytes_total);
    let report = backup::restore(from, data, &mut show).map_err(|error| match error {
        BackupError::Open(OpenError::NoStore(place)) => Failure::new(format_args!(
            "{place} is not a backup: it has no MANIFEST; name the backup's directory with --from"
        )),
        BackupError::Disk(disk::Error::NotFound { .. }) => {
            Failure::new(format_args!("{error}: name the backup's directory with --from"))
        }
        error => Failure::new(error),
    })?;
    progress.clear();
    let has_keys = access_file::exists(data);
    let document = json!({
        "path": data.display().to_string(),
        "files": report.files,
        "bytes": report.bytes,
        "paused": true,
    });
    let (data, files, bytes) =
        (text::lines(&data.display().to_string()), report.files, text::bytes(report.bytes));
    // Restored keys admit no one before that.
    let keys = match has_keys {
        true => format!("  duly key confirm --data {data}\n"),
        false => String::new(),
    };
    printer.document(&document.to_string(), || Ok(format!(
        "{data}  restored: {files} files, {bytes}\n\
         \n\
         Every namespace is paused at the first start: nothing fires, scheduling and cancelling work.\n\
         Timers that were due since the backup are overdue, and those that the old server fired after it\n\
         would fire again. Check before you resume:\n\
         \n  \
         duly store check --data {data}\n{keys}  \
         duly serve --data {data}\n  \
         duly namespace stats NAMESPACE     shows the counts\n  \
         duly namespace resume NAMESPACE    resumes one namespace\n  \
         duly resume --all                  resumes all of them\n  \
         duly resume --all --overdue dead   the same, and dead-letters the overdue timers"
    )))
}
