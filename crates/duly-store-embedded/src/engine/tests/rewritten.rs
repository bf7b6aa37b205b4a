//! Records that the rewriter has read, and the files from which it read them.

use crate::{
    files::FileId,
    format::{ALIGN, frame, segment},
    index::Location,
};

use super::{moving::Mover, *};

impl Mover {
    /// Schedules a timer again, with another payload of the same length, in a frame of its own. Returns
    /// its location.
    fn put(&mut self, text: &str) -> Location {
        self.grown = self.grown.wrapping_add(1);
        self.schedule(text, vec![self.grown; 5_000]);
        self.commit();
        self.place_of(text)
    }

    fn place_of(&self, text: &str) -> Location {
        let number = self.engine.namespaces.number_of(&shop()).unwrap();
        let key = self.engine.key(number, text);
        self.engine.namespaces.live(key).expect("it is pending").location()
    }

    fn payload_of(&self, text: &str) -> Vec<u8> {
        let timer = self.engine.load_timer(self.place_of(text)).expect("it can be read");
        timer.spec.payload.expect("it was made with one").bytes.to_vec()
    }
}

/// A record that was read from a segment would be taken for the record that is in its place by then, in
/// the next segment of that file: another content under the right name.
#[test]
fn p5_segment_of_rewrite_job_is_not_recycled() {
    let mut mover = Mover::new();
    let first = segment::HEADER_BYTES + frame::HEADER_BYTES as u64;
    let mut old = mover.put("x");
    while old.unit() * ALIGN != first {
        old = mover.put("x");
    }
    let sequence = mover.engine.journal.active_sequence();
    while mover.engine.journal.active_sequence() < sequence + 2 {
        mover.grow();
    }
    assert!(mover.rewrite_until_moving(), "its segment is old");
    assert_eq!(mover.place_of("x"), old, "it has not moved yet");
    // Nothing points there any more, in the index or in either of two checkpoints.
    mover.put("x");
    (0..4).for_each(|_| mover.take_checkpoint());
    let mut round = 0;
    while mover.place_of("x") != old && round < 300 {
        mover.put("x");
        round += 1;
        if round % 10 == 0 {
            mover.take_checkpoint();
        }
    }
    let latest = mover.payload_of("x");
    while mover.engine.rewriter.is_moving() {
        mover.engine.rewrite_step();
    }
    assert!(mover.payload_of("x") == latest, "x has its old payload again, after {round} rounds");
    mover.background();
    let segment = FileId::Segment(sequence);
    assert_eq!(mover.engine.files.slot_of(segment), None, "it waited for the job, and no longer");
}

/// Rewrites all old files. A job that leaves a record in place keeps its file for good, which only
/// unreadable records may do. Moved records read as before.
fn check_all_moves(mover: &mut Mover) {
    let before = shown::shown(&mover.engine);
    let mut jobs = 0;
    while mover.rewrite_until_moving() {
        let sources = mover.engine.rewriter.sources().to_vec();
        while mover.engine.rewriter.is_moving() {
            mover.engine.rewrite_step();
        }
        for slot in sources {
            let counts = mover.engine.files.counts(slot).expect("it waits for two checkpoints");
            assert_eq!(counts.live, 0, "records left out, in slot {slot}");
        }
        jobs += 1;
    }
    assert!(jobs > 0, "there is something old");
    assert_eq!(mover.engine.broken_invariants(), []);
    assert_eq!(shown::difference(&shown::shown(&mover.engine), &before), None);
}

#[test]
fn p1_p10_rewrite_and_merge_preserve_every_record() {
    let mut mover = Mover::new();
    (0..4_000).for_each(|n| mover.schedule(&format!("t{n}"), vec![7; 10]));
    mover.commit();
    check_all_moves(&mut mover);

    // Each large record is looked up. All are live, so one that is left out shows, wherever a part of a file begins.
    let mut mover = Mover::new();
    (0..100).for_each(|n| mover.schedule(&format!("large{n}"), vec![7; 5_000]));
    mover.commit();
    check_all_moves(&mut mover);

    let mut mover = Mover::with_sparse_runs();
    (0..2).for_each(|_| mover.take_checkpoint());
    check_all_moves(&mut mover);
}

/// Files are picked by size classes, of which the last has all records over 2 MiB.
#[test]
fn p10_a_job_ends_with_the_file_that_fills_it() {
    const PAYLOAD: usize = 7 << 20;
    const SEGMENT: u64 = 16 << 20;
    let options = Options { segment_bytes: SEGMENT, young_bytes: 1, ..small() };
    let (mut engine, _disk, _clock) = opened(options);
    let mut settings = duly_core::Settings::default();
    settings.limits.max_payload_bytes = PAYLOAD as u64;
    let secrets = duly_store::namespaces::Secrets::Keep;
    engine.put_namespace(&shop(), Put::Replace { settings: Box::new(settings), secrets }).unwrap();
    let mut most = 0;
    let mut rest = |engine: &mut Engine| {
        loop {
            engine.begin_step();
            if let Some(mark) = engine.commit().unwrap() {
                mark.file.sync_data().unwrap();
                engine.synced(mark.lsn, mark.position);
            }
            let work = engine.take_work();
            if work.is_empty() && !engine.is_busy() {
                return;
            }
            work.into_iter().for_each(|work| work()(engine));
            most = most.max(engine.rewriter.job_bytes());
        }
    };
    // No step runs meanwhile: all segments but the last become old at once.
    for i in 0..16 {
        let mut schedule =
            Box::new(Schedule::new(id(&format!("t{i}")), When::After(Millis::from_secs(86_400))));
        schedule.spec.payload = Some(duly_core::Payload {
            form: duly_core::payload::Form::Text,
            bytes: vec![b'x'; PAYLOAD].into(),
        });
        let operation = Operation::Schedule { schedule, if_exists: IfExists::Fail };
        let command = Command { namespace: shop(), operation, answer: Answer::Brief };
        let outcome = engine.apply(command);
        assert!(matches!(outcome, Outcome::Created(_)), "{outcome:?}");
        let mark = engine.commit().unwrap().expect("it was appended");
        mark.file.sync_data().unwrap();
        engine.synced(mark.lsn, mark.position);
    }
    rest(&mut engine);
    assert!(most > 0, "there was a job");
    assert!(most <= (32 << 20) + SEGMENT as usize, "a job holds {} MiB", most >> 20);
}
