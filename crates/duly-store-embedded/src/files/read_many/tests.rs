use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use parking_lot::Mutex;

use super::*;
use crate::{
    disk::{Error, File},
    files::DataFile,
    journal::fixture::pending,
};

/// A request to a file, with its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DiskCall {
    Ahead(u64),
    Read(u64),
}

/// A file in memory that records the requests.
#[derive(Debug)]
struct Noting {
    bytes: Vec<u8>,
    asked: Mutex<Vec<DiskCall>>,
    /// `true`: the file is in memory.
    is_warm: AtomicBool,
}

impl File for Noting {
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize, Error> {
        self.asked.lock().push(DiskCall::Read(offset));
        let start = usize::try_from(offset).unwrap().min(self.bytes.len());
        let count = buf.len().min(self.bytes.len() - start);
        buf[..count].copy_from_slice(&self.bytes[start..start + count]);
        Ok(count)
    }

    fn read_now(&self, offset: u64, buf: &mut [u8]) -> Result<usize, Error> {
        if self.is_warm.load(Ordering::Relaxed) { self.read_at(offset, buf) } else { Ok(0) }
    }

    fn will_need(&self, offset: u64, len: u64) {
        assert!(len > 0 && offset + len <= self.bytes.len() as u64, "{len} bytes at {offset}");
        self.asked.lock().push(DiskCall::Ahead(offset));
    }

    fn write_at(&self, _: u64, _: &[u8]) -> Result<(), Error> {
        unreachable!("it is only read")
    }

    fn sync_data(&self) -> Result<(), Error> {
        unreachable!("it is only read")
    }

    fn sync_all(&self) -> Result<(), Error> {
        unreachable!("it is only read")
    }

    fn len(&self) -> Result<u64, Error> {
        Ok(self.bytes.len() as u64)
    }

    fn set_len(&self, _: u64) -> Result<(), Error> {
        unreachable!("it is only read")
    }

    fn name(&self) -> &'static str {
        "noting"
    }
}

/// Makes a file with `count` records, `apart` bytes apart, and returns their locations.
fn scattered(count: u64, apart: u64, payload_bytes: usize) -> (Files, Arc<Noting>, Vec<Location>) {
    let (mut bytes, mut places) = (Vec::new(), Vec::new());
    for number in 0..count {
        let at = bytes.len() as u64;
        record::encode(&mut bytes, 1, &pending(&format!("t{number}"), payload_bytes));
        places.push(Location::new(0, at / ALIGN, bytes.len() as u64 - at));
        bytes.resize(usize::try_from((number + 1) * apart).unwrap(), 0);
    }
    let file = Arc::new(Noting { bytes, asked: Mutex::default(), is_warm: false.into() });
    let mut files = Files::default();
    let length = file.len().unwrap();
    files.put(0, DataFile::segment(1, Arc::<Noting>::clone(&file), length));
    (files, file, places)
}

fn read_all(files: &Files, places: &[Location]) {
    for result in files.read_many(places, 1).into_vec() {
        result.expect("it is read").expect("it is there");
    }
}

#[test]
fn scattered_records_are_hinted_before_the_first_read() {
    let (files, file, mut places) = scattered(100, 10_000, 50);
    places.reverse();
    read_all(&files, &places);
    let asked = file.asked.lock().clone();
    let starts = (0..100).map(|number| number * 10_000);
    let expected: Vec<DiskCall> =
        starts.clone().map(DiskCall::Ahead).chain(starts.map(DiskCall::Read)).collect();
    assert_eq!(asked, expected);
}

#[test]
fn records_in_memory_are_read_without_hints() {
    let (files, file, places) = scattered(100, 10_000, 50);
    file.is_warm.store(true, Ordering::Relaxed);
    read_all(&files, &places);
    let expected: Vec<DiskCall> = (0..100).map(|number| DiskCall::Read(number * 10_000)).collect();
    assert_eq!(*file.asked.lock(), expected);
}

#[test]
fn read_ahead_hints_are_bounded() {
    let (files, file, places) = scattered(1_000, 10_000, 50);
    read_all(&files, &places);
    let (mut ahead, mut read) = (0, 0);
    for asked in file.asked.lock().iter() {
        match asked {
            DiskCall::Ahead(_) => ahead += 1,
            DiskCall::Read(_) => read += 1,
        }
        assert!(ahead <= read + READ_AHEAD, "{ahead} told of after {read} reads");
    }
    assert_eq!((ahead, read), (1_000, 1_000));
}

#[test]
fn large_records_get_few_hints() {
    let (files, file, places) = scattered(100, 1 << 20, 600_000);
    read_all(&files, &places);
    let asked = file.asked.lock();
    let ahead = asked.iter().take_while(|asked| matches!(asked, DiskCall::Ahead(_))).count();
    assert_eq!(ahead, 16, "of a MiB each, by size class");
    assert_eq!(asked.iter().filter(|asked| matches!(asked, DiskCall::Ahead(_))).count(), 100);
}

#[test]
fn records_side_by_side_are_one_read_without_a_hint() {
    let (files, file, places) = scattered(100, 400, 50);
    read_all(&files, &places);
    assert_eq!(*file.asked.lock(), [DiskCall::Read(0)]);
    file.asked.lock().clear();
    read_all(&files, &places[..1]);
    assert_eq!(*file.asked.lock(), [DiskCall::Read(0)]);
}
