//! The namespaces for which calls wait at a node, in a few bytes.

use duly_core::NamespaceName;

/// A set of namespaces in 256 bytes. It may contain more namespaces than were inserted, never fewer: one bit
/// for each of 2,048 hash values (a Bloom filter with one hash).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamespaceFilter {
    /// Empty, or [`NamespaceFilter::BYTES`] long.
    bits: Vec<u8>,
}

impl NamespaceFilter {
    const BYTES: usize = 256;

    /// Inserts a namespace.
    pub fn insert(&mut self, namespace: &NamespaceName) {
        let (byte, bit) = Self::bit_of(namespace);
        self.bits.resize(Self::BYTES, 0);
        self.bits[byte] |= bit;
    }

    /// Returns `true` if the set may contain the namespace.
    pub fn contains(&self, namespace: &NamespaceName) -> bool {
        let (byte, bit) = Self::bit_of(namespace);
        self.bits.get(byte).is_some_and(|held| held & bit != 0)
    }

    /// Returns `true` if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.bits.is_empty()
    }

    /// Returns the text form: hexadecimal digits, or nothing if the set is empty.
    pub fn to_text(&self) -> String {
        self.bits.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Parses the text form. Any other text gives an empty set.
    pub fn from_text(text: &str) -> Self {
        let byte = |at: usize| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
        let bits: Option<Vec<u8>> = (0..text.len()).step_by(2).map(byte).collect();
        Self { bits: bits.filter(|bits| bits.len() == Self::BYTES).unwrap_or_default() }
    }

    /// Returns byte and bit of a name. All nodes must compute the same: FNV-1a, 64 bits.
    fn bit_of(namespace: &NamespaceName) -> (usize, u8) {
        let hash = namespace.as_str().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let bit = (hash ^ (hash >> 32)) % (Self::BYTES as u64 * 8);
        (usize::try_from(bit / 8).unwrap_or(0), 1 << (bit % 8))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filter_contains_all_inserted_names_and_few_others() {
        let name = |i: u32| NamespaceName::new(&format!("tenant-{i}")).unwrap();
        let mut filter = NamespaceFilter::default();
        assert!(filter.is_empty() && !filter.contains(&name(1)));
        for i in 0..50 {
            filter.insert(&name(i));
        }
        assert!((0..50).all(|i| filter.contains(&name(i))));
        let more = (50..1_050).filter(|i| filter.contains(&name(*i))).count();
        assert!(more < 60, "{more} of 1,000");
        assert_eq!(NamespaceFilter::from_text(&filter.to_text()), filter);
        for text in ["", "0", "zz", "00", "\u{e4}\u{e4}"] {
            assert!(NamespaceFilter::from_text(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn bit_of_a_name_is_frozen() {
        let mut filter = NamespaceFilter::default();
        filter.insert(&NamespaceName::new("orders").unwrap());
        let text = filter.to_text();
        let at = text.find(|digit| digit != '0').unwrap();
        assert_eq!((at, &text[at..=at]), (438, "4"));
    }
}
