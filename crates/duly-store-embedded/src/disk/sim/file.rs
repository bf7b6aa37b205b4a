//! An open handle on a simulated file.

use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;

use super::names::Inode;
use super::state::SimState;
use crate::disk::{Error, File, Operation, Punched};

#[derive(Debug)]
pub(super) struct SimFile {
    state: Arc<Mutex<SimState>>,
    inode: Inode,
    name: String,
}

impl SimFile {
    /// Makes a new handle; `locked` is the state that `state` guards.
    pub(super) fn open(
        state: &Arc<Mutex<SimState>>,
        locked: &mut SimState,
        inode: Inode,
        name: &str,
    ) -> Arc<dyn File> {
        locked.open_handle(inode);
        Arc::new(Self { state: Arc::clone(state), inode, name: name.to_owned() })
    }

    fn key(&self) -> (Inode, &str) {
        (self.inode, &self.name)
    }
}

impl Drop for SimFile {
    fn drop(&mut self) {
        self.state.lock().close_handle(self.inode);
    }
}

impl File for SimFile {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize, Error> {
        let state = self.state.lock();
        state.check_up(Operation::Read, &self.name)?;
        let bytes = state.content(self.inode).bytes();
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        let read_bytes = buf.len().min(bytes.len() - start);
        buf[..read_bytes].copy_from_slice(&bytes[start..start + read_bytes]);
        Ok(read_bytes)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        self.state.lock().write(self.key(), offset, bytes)
    }

    fn sync_data(&self) -> Result<(), Error> {
        self.state.lock().sync_file(self.key())
    }

    fn sync_all(&self) -> Result<(), Error> {
        self.state.lock().sync_file(self.key())
    }

    fn len(&self) -> Result<u64, Error> {
        let state = self.state.lock();
        state.check_up(Operation::Length, &self.name)?;
        Ok(state.content(self.inode).len() as u64)
    }

    fn set_len(&self, len: u64) -> Result<(), Error> {
        self.state.lock().set_len(self.key(), len)
    }

    fn punch_hole(&self, offset: u64, len: u64) -> Result<Punched, Error> {
        self.state.lock().punch_hole(self.key(), offset, len).map(|()| Punched::Done)
    }

    fn holes(&self) -> Result<Vec<Range<u64>>, Error> {
        let state = self.state.lock();
        state.check_up(Operation::Length, &self.name)?;
        Ok(state.content(self.inode).holes())
    }

    fn write_back(&self, _offset: u64, _len: u64) -> Result<(), Error> {
        self.state.lock().write_back(self.key())
    }

    fn will_need(&self, _offset: u64, _len: u64) {}

    fn allocated_bytes(&self) -> Result<u64, Error> {
        let state = self.state.lock();
        state.check_up(Operation::Length, &self.name)?;
        Ok(state.content(self.inode).allocated_bytes())
    }

    fn name(&self) -> &str {
        &self.name
    }
}
