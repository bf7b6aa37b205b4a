use duly_core::destination::HttpDestination;

use super::*;

fn check(address: &str, expected: Option<AddressKind>) {
    let ip: IpAddr = address.parse().unwrap();
    let got = AddressPolicy::default().check(ip).err().map(|r| r.kind);
    assert_eq!(got, expected, "{address}");
}

#[test]
fn s5_only_public_addresses_pass() {
    use AddressKind::*;
    for (address, kind) in [
        ("127.0.0.1", Loopback),
        ("127.255.255.254", Loopback),
        ("0.0.0.0", Unspecified),
        ("0.1.2.3", Unspecified),
        ("10.0.0.1", Private),
        ("172.16.0.1", Private),
        ("172.31.255.255", Private),
        ("192.168.1.1", Private),
        ("100.64.0.1", CarrierNat),
        ("100.127.255.255", CarrierNat),
        ("169.254.0.1", LinkLocal),
        ("169.254.169.254", Metadata),
        ("100.100.100.200", Metadata),
        ("168.63.129.16", Metadata),
        ("192.0.0.192", Metadata),
        ("192.0.0.1", Reserved),
        ("192.0.2.1", Reserved),
        ("192.88.99.1", Reserved),
        ("198.18.0.1", Reserved),
        ("198.51.100.1", Reserved),
        ("203.0.113.1", Reserved),
        ("224.0.0.1", Multicast),
        ("239.255.255.250", Multicast),
        ("240.0.0.1", Reserved),
        ("255.255.255.255", Multicast),
        ("::", Unspecified),
        ("::1", Loopback),
        ("fe80::1", LinkLocal),
        ("fc00::1", Private),
        ("fdff::1", Private),
        ("fec0::1", Private),
        ("fd00:ec2::254", Metadata),
        ("ff02::1", Multicast),
        ("2001:db8::1", Reserved),
        ("2001::1", Embedded),
        ("2001:0:4136:e378:8000:63bf:f7f7:f7f7", Reserved),
        ("2001:2::1", Reserved),
        ("2001:10::1", Reserved),
        ("2001:20::1", Reserved),
        ("2001:1ff:ffff::1", Reserved),
        ("2002:c058:6301::1", Embedded),
        ("100::1", Reserved),
        ("5f00::1", Reserved),
        // IPv4 addresses embedded in IPv6.
        ("::ffff:127.0.0.1", Loopback),
        ("::ffff:169.254.169.254", Metadata),
        ("::ffff:10.1.2.3", Private),
        ("::127.0.0.1", Embedded),
        ("::ffff:0:10.0.0.1", Embedded),
        ("64:ff9b::10.0.0.1", Embedded),
        ("64:ff9b::169.254.169.254", Embedded),
        ("64:ff9b:1::1", Private),
        ("2002:7f00:1::", Embedded),
        ("2002:a9fe:a9fe::1", Embedded),
        // Teredo with the client 10.0.0.1, inverted.
        ("2001:0:4136:e378:8000:63bf:f5ff:fffe", Embedded),
    ] {
        check(address, Some(kind));
    }
    for address in [
        "1.1.1.1",
        "8.8.8.8",
        "9.255.255.255",
        "11.0.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "172.15.255.255",
        "172.32.0.0",
        "169.253.255.255",
        "192.167.255.255",
        "192.88.98.255",
        "192.88.100.0",
        "223.255.255.255",
        "2001:200::1",
        "2606:4700:4700::1111",
        "2a00:1450:4001:81b::200e",
        "::ffff:8.8.8.8",
        "64:ff9b::8.8.8.8",
        "2002:808:808::1",
    ] {
        check(address, None);
    }
}

#[test]
fn s5_every_spelling_of_a_literal_host_is_seen() {
    for host in [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0177.0.0.1",
        "0x7f.0.0.1",
        "0x7f000001",
        "017700000001",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[0:0:0:0:0:0:0:1]",
        "\u{ff11}27.0.0.1",
        "127.0.0.1.",
    ] {
        let destination = HttpDestination::new(&format!("http://{host}/x")).unwrap();
        let checked = AddressPolicy::default().check_url(destination.url());
        assert!(checked.is_err(), "{host} passes as {}", destination.url());
        let checked = AddressPolicy::with_loopback().check_url(destination.url());
        assert_eq!(checked, Ok(()), "{host}");
    }
}

#[test]
fn what_is_configured_passes_and_nothing_else() {
    let policy = AddressPolicy {
        loopback: Loopback::Refused,
        allow: vec!["10.0.0.0/8".parse().unwrap(), "fd12::/16".parse().unwrap()],
        ..AddressPolicy::default()
    };
    let passes = |address: &str| policy.check(address.parse().unwrap()).is_ok();
    assert!(passes("10.1.2.3") && passes("::ffff:10.1.2.3") && passes("fd12::1"));
    for refused in ["127.0.0.1", "192.168.0.1", "fd13::1", "64:ff9b::10.1.2.3"] {
        assert!(!passes(refused), "{refused}");
    }
    // Allowed loopback opens no address that only resembles it.
    let loopback = AddressPolicy::with_loopback();
    assert!(loopback.check("64:ff9b::127.0.0.1".parse().unwrap()).is_err());
    assert!(loopback.check("0.0.0.0".parse().unwrap()).is_err());
    assert!(loopback.check("::ffff:127.0.0.1".parse().unwrap()).is_ok());
}

#[test]
fn s5_the_servers_own_address_is_always_refused() {
    let policy = AddressPolicy {
        loopback: Loopback::Allowed,
        allow: vec!["0.0.0.0/0".parse().unwrap(), "::/0".parse().unwrap()],
        own: ["127.0.0.1:3859", "[::1]:80", "0.0.0.0:81"].map(|own| own.parse().unwrap()).into(),
        ..AddressPolicy::default()
    };
    let check = |url: &str| policy.check_url(HttpDestination::new(url).unwrap().url());
    for url in [
        "http://127.0.0.1:3859/",
        "https://127.1:3859/x",
        "http://[::ffff:127.0.0.1]:3859/",
        "http://0.0.0.0:3859/",
        "http://[::1]/",
        "http://127.9.9.9:81/",
    ] {
        assert_eq!(check(url).map_err(|refused| refused.kind), Err(AddressKind::Own), "{url}");
    }
    for url in
        ["http://127.0.0.1/", "http://127.0.0.1:3860/", "http://[::1]:3859/", "http://a:3859/"]
    {
        assert_eq!(check(url), Ok(()), "{url}");
    }
    let said = check("http://127.0.0.1:3859/").unwrap_err().to_string();
    assert!(said.contains("this server itself") && !said.contains("allow_networks"), "{said}");
}

#[test]
fn s5_only_configured_ports_pass_or_all_without_any() {
    let policy = AddressPolicy { ports: vec![443..=443, 8000..=8999], ..AddressPolicy::default() };
    for (port, passes) in
        [(443, true), (8000, true), (8999, true), (80, false), (7999, false), (9000, false)]
    {
        assert_eq!(policy.check_port(port).is_ok(), passes, "{port}");
    }
    assert!(AddressPolicy::default().check_port(25).is_ok());
}
