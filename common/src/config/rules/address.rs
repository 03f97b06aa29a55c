//! Addresses: `HOST:PORT` to listen at, `http://HOST:PORT` to connect to.

use std::net::IpAddr;

use super::require;
use crate::config::ConfigError;

/// Splits `HOST:PORT`; an IPv6 host stands in brackets.
pub(super) fn host_and_port(text: &str) -> Option<(&str, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    let port = port.parse().ok()?;
    let host = match host.strip_prefix('[') {
        Some(host) => host.strip_suffix(']').filter(|host| is_ip(host))?,
        None => Some(host).filter(|host| !host.is_empty() && !host.contains([':', '/', ' ']))?,
    };
    Some((host, port))
}

/// Whether only this machine reaches a host: 127.0.0.0/8, ::1, localhost.
pub(super) fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// Checks an address that is connected to.
pub(super) fn require_http(address: &str, key: &str) -> Result<(), ConfigError> {
    require(!address.starts_with("https://"), key, || {
        format!("`{address}`: https is not supported yet; use http:// in a trusted network")
    })?;
    let rest = address.strip_prefix("http://");
    let rest = rest.map(|rest| rest.strip_suffix('/').unwrap_or(rest));
    let port = rest.and_then(host_and_port).map(|(_, port)| port);
    require(port.is_some_and(|port| port != 0), key, || {
        format!("`{address}` is not http://HOST:PORT, such as http://127.0.0.1:7070")
    })
}

fn is_ip(host: &str) -> bool {
    host.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports_are_told_apart() {
        let check = |text, expected| assert_eq!(host_and_port(text), expected, "{text}");
        check("127.0.0.1:7070", Some(("127.0.0.1", 7070)));
        check("[::1]:0", Some(("::1", 0)));
        check("ps-0.ps:65535", Some(("ps-0.ps", 65535)));
        for bad in [
            "",
            ":7070",
            "host",
            "host:",
            "host:65536",
            "::1:80",
            "[x]:1",
            "a/b:1",
        ] {
            check(bad, None);
        }
    }

    #[test]
    fn loopback_is_what_only_this_machine_reaches() {
        for host in ["127.0.0.1", "127.9.9.9", "::1", "localhost", "LOCALHOST"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in ["0.0.0.0", "::", "10.0.0.1", "localhost.example.com"] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
