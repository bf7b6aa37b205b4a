//! The configuration file of a server, for commands that work on its store without a server.

use std::{path::Path, sync::Arc};

use duly_server::config::{self, Config, Source};
use duly_store::Store;

use crate::failure::Failure;

/// Reads a configuration file, with the variables of the environment over it.
pub(crate) fn load(file: &Path) -> Result<Config, Failure> {
    let source = Source { file: Some(file.to_owned()), ..Source::from_env() };
    config::load_with_files(&source).map_err(Failure::new)
}

/// Opens the store of a configuration file, which servers share.
pub(crate) async fn open_shared(file: &Path) -> Result<Arc<dyn Store>, Failure> {
    let config = load(file)?;
    let store = duly_server::open_shared(&config).await.map_err(Failure::new)?;
    store.ok_or_else(|| {
        let file = file.display();
        Failure::usage(format_args!(
            "{file} names no store that servers share (store.url): only such a store has shards and \
             records to repair"
        ))
    })
}
