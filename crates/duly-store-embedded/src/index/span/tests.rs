use proptest::prelude::*;

use super::*;

fn spans() -> impl Strategy<Value = Span> {
    (0..=DEPTH_MAX, any::<u32>())
        .prop_map(|(depth, bits)| Span::new(bits & ((1 << depth) - 1), depth))
}

fn contains(span: Span, position: u64) -> bool {
    span.start() <= position && span.end().is_none_or(|end| position < end)
}

proptest! {
    #[test]
    fn positions_are_in_the_order_of_the_fingerprints(a: u64, b: u64, near in 0_u64..9) {
        prop_assert_eq!(position(a).cmp(&position(b)) as i8 * a.cmp(&b) as i8 >= 0, true);
        prop_assert!(position(a) <= position(a.saturating_add(near)));
    }

    #[test]
    fn homes_are_in_the_order_of_the_fingerprints(
        span in spans(), lows in prop::collection::vec(any::<u64>(), 2), homes in 1_u32..5_000,
    ) {
        // Two fingerprints of the span, found by halving.
        let first_of = |start: u64| {
            let (mut below, mut at) = (0_u64, u64::MAX);
            while below < at {
                let middle = below + (at - below) / 2;
                if position(middle) < start { below = middle + 1 } else { at = middle }
            }
            at
        };
        let first = first_of(span.start());
        let after = span.end().map_or(u64::MAX, first_of);
        let mut lows: Vec<_> = lows.iter().map(|low| first + low % (after - first)).collect();
        lows.sort_unstable();
        prop_assert!(lows.iter().all(|low| contains(span, position(*low))));
        prop_assert!(span.home(lows[0], homes) <= span.home(lows[1], homes));
        prop_assert!(span.home(lows[1], homes) < homes as usize);
        prop_assert!(span.home(first, homes) <= (homes as usize) / 1_000, "from the first slot on");
        let last = span.home(after - 1, homes);
        prop_assert!(last + 1 + (homes as usize) / 1_000 >= homes as usize, "to the last: {}", last);
    }

    #[test]
    fn halves_make_up_the_whole(span in spans(), position: u64) {
        if span.depth() < DEPTH_MAX {
            let (first, second) = span.halves();
            prop_assert_eq!((first.start(), second.end()), (span.start(), span.end()));
            prop_assert_eq!(first.end(), Some(second.start()));
            prop_assert_eq!(first.parent_and_buddy(), Some((span, second)));
            prop_assert_eq!(second.parent_and_buddy(), Some((span, first)));
        }
        let pointer = position >> (64 - u32::from(DEPTH_MAX));
        let pointers = span.pointers(DEPTH_MAX);
        prop_assert_eq!(pointers.contains(&(pointer as usize)), contains(span, position));
    }
}

#[test]
fn the_last_positions_have_twice_the_fingerprints_of_the_first() {
    let slope = |low: u64| (position(low + (1 << 40)) - position(low)) as f64 / 2_f64.powi(40);
    let (first, last) = (slope(0), slope(u64::MAX - (1 << 41)));
    assert!((1.33..1.34).contains(&first) && (0.66..0.67).contains(&last), "{first} {last}");
    assert_eq!(Span::default().parent_and_buddy(), None);
    assert_eq!((position(0), position(u64::MAX)), (0, u64::MAX));
}

#[test]
fn the_largest_span_at_a_position_begins_there() {
    assert_eq!(Span::largest_at(0), Span::default());
    for span in [Span::new(1, 1), Span::new(3, 2), Span::new(0xABCDEF, 24), Span::new(6, 9)] {
        let largest = Span::largest_at(span.start());
        assert_eq!(largest.start(), span.start());
        assert!(largest.depth() <= span.depth());
        let (parent, _) = largest.parent_and_buddy().expect("it does not begin at 0");
        assert!(parent.start() < span.start());
    }
}
