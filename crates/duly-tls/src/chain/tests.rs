//! Chains that a peer may send, in both directions.

use std::{cell::Cell, collections::HashMap};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::{
    crypto::{WebPkiSupportedAlgorithms, ring::default_provider},
    pki_types::{AlgorithmIdentifier, InvalidSignature, SignatureVerificationAlgorithm},
    server::WebPkiClientVerifier,
};

use super::*;

thread_local! {
    static SIGNATURES: Cell<usize> = const { Cell::new(0) };
}

/// An algorithm that counts the signatures that a thread checks.
#[derive(Debug)]
struct Counted(&'static dyn SignatureVerificationAlgorithm);

impl SignatureVerificationAlgorithm for Counted {
    fn verify_signature(
        &self,
        public_key: &[u8],
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), InvalidSignature> {
        SIGNATURES.set(SIGNATURES.get() + 1);
        self.0.verify_signature(public_key, message, signature)
    }

    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        self.0.public_key_alg_id()
    }

    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        self.0.signature_alg_id()
    }
}

/// Returns a provider whose checks of signatures are counted.
fn counting_provider() -> Arc<CryptoProvider> {
    let mut provider = default_provider();
    let counted = provider.signature_verification_algorithms.all.iter();
    let counted = counted
        .map(|it| &*Box::leak(Box::new(Counted(*it))) as &dyn SignatureVerificationAlgorithm);
    provider.signature_verification_algorithms = WebPkiSupportedAlgorithms {
        all: Vec::leak(counted.collect()),
        mapping: provider.signature_verification_algorithms.mapping,
    };
    Arc::new(provider)
}

/// The authorities and certificates of a test, each with a key.
struct Authorities {
    algorithm: &'static rcgen::SignatureAlgorithm,
    keys: HashMap<&'static str, KeyPair>,
}

impl Default for Authorities {
    fn default() -> Self {
        Self { algorithm: &rcgen::PKCS_ECDSA_P256_SHA256, keys: HashMap::new() }
    }
}

impl Authorities {
    fn params(name: &str) -> CertificateParams {
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
    }

    /// Returns the certificate of `subject`, signed by `issuer`. A subject or an issuer is `NAME` or `NAME/KEY`, so two of them
    /// may have one name.
    fn sign(&mut self, subject: &'static str, issuer: &'static str) -> CertificateDer<'static> {
        for key in [subject, issuer] {
            let generate = || KeyPair::generate_for(self.algorithm).unwrap();
            self.keys.entry(key).or_insert_with(generate);
        }
        let name = |of: &'static str| of.split('/').next().unwrap();
        let mut params = Self::params(name(subject));
        if subject == "own" {
            params.is_ca = IsCa::NoCa;
        }
        let issuer = Issuer::new(Self::params(name(issuer)), &self.keys[issuer]);
        params.signed_by(&self.keys[subject], &issuer).unwrap().der().clone()
    }

    /// Returns the certificates of pairs `SUBJECT < ISSUER`, from the peer's own to the last.
    fn chain(&mut self, pairs: &[[&'static str; 2]]) -> Vec<CertificateDer<'static>> {
        pairs.iter().map(|[subject, issuer]| self.sign(subject, issuer)).collect()
    }

    fn roots(&mut self, names: &[&'static str]) -> RootCertStore {
        let mut roots = RootCertStore::empty();
        names.iter().for_each(|name| roots.add(self.sign(name, name)).unwrap());
        roots
    }
}

/// Verifies a chain as a server's and as a client's. Returns the results, and the signatures of the dearer one.
fn verify(roots: &RootCertStore, chain: &[CertificateDer<'_>]) -> ([Result<(), Error>; 2], usize) {
    let (own, others) = chain.split_first().unwrap();
    let provider = counting_provider();
    let server = server_verifier(roots.clone(), &provider);
    let client = Arc::new(roots.clone());
    let client = WebPkiClientVerifier::builder_with_provider(client, provider);
    let client = client_verifier(client.build().unwrap());
    let name = ServerName::try_from("localhost").unwrap();
    let now = UnixTime::now();
    SIGNATURES.set(0);
    let as_server = server.verify_server_cert(own, others, &name, &[], now).map(drop);
    let of_server = SIGNATURES.take();
    let as_client = client.verify_client_cert(own, others, now).map(drop);
    ([as_server, as_client], of_server.max(SIGNATURES.take()))
}

/// Returns a certificate with `intermediates` others that all have the name of its authority: each may be next on
/// the path, behind each.
fn one_name(intermediates: usize) -> Vec<CertificateDer<'static>> {
    let keys = ["a/0", "a/1", "a/2", "a/3", "a/4", "a/5", "a/6", "a/7"];
    let mut authorities = Authorities::default();
    let others = (0..intermediates).map(|i| [keys[i % 8], keys[(i + 1) % 8]]);
    let pairs: Vec<_> = [["own", keys[0]]].into_iter().chain(others).collect();
    authorities.chain(&pairs)
}

#[test]
fn p10_longer_chains_are_refused_in_both_directions() {
    let roots = Authorities::default().roots(&["trusted"]);
    for (intermediates, is_read) in [(0, true), (1, true), (9, false), (120, false)] {
        let (results, signatures) = verify(&roots, &one_name(intermediates));
        for result in results {
            let refusal = ChainRefused::of(&result.unwrap_err());
            let is_refused = matches!(refusal, Some(ChainRefused::TooLong { .. }));
            assert_eq!(is_refused, !is_read, "{refusal:?}");
        }
        assert_eq!(signatures, 0);
    }
}

#[test]
fn p10_chains_with_many_paths_are_refused_unverified() {
    for trusted in ["trusted", "a"] {
        let roots = Authorities::default().roots(&[trusted]);
        let (results, signatures) = verify(&roots, &one_name(INTERMEDIATES_MAX));
        let refusal = Some(ChainRefused::TooManyPaths { certificates: 9 });
        assert_eq!(results.map(|it| ChainRefused::of(&it.unwrap_err())), [refusal; 2]);
        assert_eq!(signatures, 0);
    }
}

#[test]
fn p10_no_chain_costs_more_signatures_than_allowed() {
    let names = ["a/0", "a/1", "a/2", "b/0", "b/1", "c/0", "d/0", "e/0"];
    let mut authorities = Authorities::default();
    let roots = authorities.roots(&["a/0", "a/2", "b/0", "d/0"]);
    let mut random = 1_u64;
    let mut pick = |below: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) as usize % below
    };
    let (mut verified, mut dearest) = (0, 0);
    for _ in 0..150 {
        let intermediates = pick(INTERMEDIATES_MAX + 1);
        let others = (0..intermediates).map(|_| [names[pick(8)], names[pick(8)]]);
        let pairs: Vec<_> = [["own", "c/0"]].into_iter().chain(others).collect();
        let ([as_server, _], signatures) = verify(&roots, &authorities.chain(&pairs));
        let is_refused = as_server.is_err_and(|error| ChainRefused::of(&error).is_some());
        verified += usize::from(!is_refused);
        dearest = dearest.max(signatures);
        assert!(signatures <= if is_refused { 0 } else { SIGNATURES_MAX }, "{pairs:?}");
    }
    assert!(verified > 20 && dearest > 2, "{verified} verified, {dearest} signatures");
}

#[test]
fn p10_the_dearest_chain_has_25_signatures_with_any_key() {
    // The last certificate before the root five times, and a signature that is wrong at the end of each path.
    let mut pairs = vec![["own", "1/other"], ["1", "2"], ["2", "3"], ["3", "4"]];
    pairs.extend([["4", "root"]; 5]);
    for algorithm in
        [&rcgen::PKCS_ECDSA_P256_SHA256, &rcgen::PKCS_ECDSA_P384_SHA384, &rcgen::PKCS_ED25519]
    {
        let mut authorities = Authorities { algorithm, ..Authorities::default() };
        let roots = authorities.roots(&["root"]);
        let chain = authorities.chain(&pairs);
        let began = std::time::Instant::now();
        let (results, signatures) = verify(&roots, &chain);
        eprintln!("{algorithm:?}: {signatures} signatures, twice in {:.1?}", began.elapsed());
        assert!(results.iter().all(Result::is_err) && signatures == 25, "{signatures}");
    }
}

#[test]
fn chains_in_use_are_accepted_in_any_order() {
    // A root that signs itself, and is signed by an older root: two certificates of one name.
    let cross = [["own", "int"], ["int", "root"], ["root", "root"], ["root", "old"]];
    let long = [
        ["own", "1"],
        ["1", "2"],
        ["2", "3"],
        ["3", "4"],
        ["4", "5"],
        ["5", "root"],
        ["root", "old"],
        ["root", "root"],
        ["old", "old"],
    ];
    // Two intermediates of one name, the older of which did not sign.
    let renewed = [["own", "int/new"], ["int/old", "root"], ["int/new", "root"], ["root", "old"]];
    for trusted in [&["root"][..], &["old"], &["old", "root"]] {
        for pairs in [&cross[..], &long, &renewed, &[["own", trusted[0]]]] {
            let mut authorities = Authorities::default();
            let roots = authorities.roots(trusted);
            let mut chain = authorities.chain(pairs);
            for _ in 0..chain.len() {
                let (results, signatures) = verify(&roots, &chain);
                assert_eq!(results, [Ok(()), Ok(())], "{trusted:?} {pairs:?}");
                assert!(signatures <= SIGNATURES_MAX, "{signatures}");
                chain[1..].reverse();
                if chain.len() > 2 {
                    chain[2..].rotate_left(1);
                }
            }
        }
    }
}

#[test]
fn a_chain_of_too_many_bytes_is_refused() {
    let mut authorities = Authorities::default();
    let roots = authorities.roots(&["root"]);
    let own = authorities.sign("own", "root");
    let bytes = CHAIN_BYTES_MAX + own.len();
    let chain = [own, CertificateDer::from(vec![0; CHAIN_BYTES_MAX])];
    let refusal = ChainRefused::TooLong { certificates: 2, bytes };
    for result in verify(&roots, &chain).0 {
        assert_eq!(ChainRefused::of(&result.unwrap_err()), Some(refusal));
    }
    let text = "the peer sent 2 certificates of 16";
    assert!(refusal.to_string().starts_with(text), "{refusal}");
}

#[test]
fn without_roots_no_certificate_is_accepted() {
    let own = Authorities::default().sign("own", "root");
    let verifier = server_verifier(RootCertStore::empty(), &counting_provider());
    let name = ServerName::try_from("localhost").unwrap();
    let result = verifier.verify_server_cert(&own, &[], &name, &[], UnixTime::now());
    assert_eq!(result.unwrap_err(), CertificateError::UnknownIssuer.into());
}
