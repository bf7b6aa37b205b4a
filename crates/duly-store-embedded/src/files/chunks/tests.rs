use super::*;

const SIZE: ChunkBytes = ChunkBytes(4096);

/// The location of a record of `bytes` bytes at this byte.
fn at(offset: u64, bytes: u64) -> Location {
    Location::new(0, offset / ALIGN, bytes)
}

fn of_length(bytes: u64) -> Chunks {
    let mut chunks = Chunks::default();
    chunks.grow(SIZE, bytes, 5);
    chunks
}

/// Returns the bounds of the removable ranges.
fn removable(chunks: &Chunks, records_end: u64, oldest_kept: u64) -> Vec<(u64, u64)> {
    let ranges = chunks.removable(SIZE, records_end, oldest_kept);
    ranges.into_iter().map(|range| (range.start, range.end)).collect()
}

#[test]
fn a_chunk_goes_when_the_older_checkpoint_began_later() {
    let mut chunks = of_length(5 * 4096);
    let record = at(2 * 4096, 100);
    chunks.retain(SIZE, record, 5);
    assert_eq!(removable(&chunks, 5 * 4096, 4), [], "who says that no checkpoint needs them");
    assert_eq!(removable(&chunks, 5 * 4096, 5), [(4096, 2 * 4096), (3 * 4096, 5 * 4096)]);
    assert_eq!(chunks.release(SIZE, record, 5 * 4096, 7), 1);
    assert_eq!(removable(&chunks, 5 * 4096, 6), [(4096, 2 * 4096), (3 * 4096, 5 * 4096)]);
    assert_eq!(removable(&chunks, 5 * 4096, 7), [(4096, 5 * 4096)]);
}

#[test]
fn the_pieces_of_header_and_directory_stay() {
    let chunks = of_length(3 * 4096 + 16);
    assert_eq!(removable(&chunks, 3 * 4096 + 16, 9), [(4096, 3 * 4096)]);
    for records_end in [0, 64, 4096, 2 * 4096 - 16] {
        assert_eq!(removable(&chunks, records_end, 9), [], "{records_end}");
    }
}

#[test]
fn a_record_keeps_every_chunk_it_may_touch() {
    let end = 64 * 4096;
    for (offset, bytes) in [(4096, 64), (4096 - 16, 64), (2 * 4096 - 16, 5000), (4096, 4096)] {
        let mut chunks = of_length(end);
        let record = at(offset, bytes);
        chunks.retain(SIZE, record, 5);
        let touched = offset / 4096 * 4096..(offset + bytes).next_multiple_of(4096);
        let gone = chunks.removable(SIZE, end, 5);
        let is_apart =
            |range: &Range<u64>| range.end <= touched.start || touched.end <= range.start;
        assert!(gone.iter().all(is_apart), "{gone:?} leave {touched:?} alone");
        chunks.release(SIZE, record, end, 5);
        assert_eq!(removable(&chunks, end, 5), [(4096, end)]);
    }
}

#[test]
fn an_unbounded_record_keeps_all_chunks_behind_its_start() {
    let end = 64 * 4096;
    let mut chunks = of_length(end);
    chunks.retain(SIZE, at(3 * 4096, 20 << 20), 5);
    assert_eq!(removable(&chunks, end, 5), [(4096, 3 * 4096)]);
}

#[test]
fn a_hole_is_counted_once_and_tried_once() {
    let end = 10 * 4096;
    let mut chunks = of_length(end);
    let kept = at(6 * 4096, 64);
    chunks.retain(SIZE, kept, 5);
    assert_eq!(chunks.held_bytes(SIZE), 3 * 4096);
    let [front, _] = chunks.removable(SIZE, end, 5).try_into().expect("two ranges");
    assert_eq!(chunks.punched(SIZE, end, &front), 5 * 4096);
    assert_eq!(chunks.punched(SIZE, end, &front), 0, "known already");
    assert_eq!(removable(&chunks, end, 5), [(7 * 4096, end)]);
    // The file system may report more or less than whole chunks.
    assert_eq!(chunks.punched(SIZE, end, &(7 * 4096 - 512..9 * 4096 - 512)), 4096);
    assert_eq!(removable(&chunks, end, 5), [(8 * 4096, end)]);
}

#[test]
fn emptied_chunks_wait_for_the_next_checkpoint() {
    let mut emptied = EmptiedChunks::default();
    for (next_checkpoint, chunks) in [(3, 1), (4, 10), (4, 100), (5, 0)] {
        emptied.note(next_checkpoint, chunks);
    }
    let waiting: Vec<u64> = (2..6).map(|oldest| emptied.waiting(oldest)).collect();
    assert_eq!(waiting, [111, 110, 0, 0]);
    emptied.checkpoint_begins(20);
    assert_eq!(emptied.waiting(2), 110);
}
