//! Rules of `server.toml`.

use super::address::{host_and_port, is_loopback, require_http};
use super::{require, require_within};
use crate::config::{ConfigError, ServerConfig};
use crate::human::Span;

impl ServerConfig {
    /// Checks ranges and relations.
    ///
    /// # Errors
    /// [`ConfigError::Invalid`] with the key and the rule.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let address = host_and_port(&self.listen);
        require(address.is_some(), "listen", || {
            format!(
                "`{}` is not HOST:PORT, such as 127.0.0.1:7070 or [::1]:7070",
                self.listen
            )
        })?;
        let private = address.is_some_and(|(host, _)| is_loopback(host));
        require(private || self.insecure, "listen", || {
            format!(
                "`{}` can be reached by others, without TLS or a token: bind 127.0.0.1, or set \
                 insecure = true in a trusted network",
                self.listen
            )
        })?;
        if let Some(address) = &self.advertise {
            require_http(address, "advertise")?;
        }
        if self.coordinator != "self" {
            require_http(&self.coordinator, "coordinator")?;
        }
        for (key, span) in [
            ("lease_ttl", self.lease_ttl),
            ("connect_timeout", self.connect_timeout),
        ] {
            require(span > Span::default(), key, || "must be above 0")?;
        }
        require_within(self.max_in_flight, 1..=1024, "max_in_flight")
    }
}

#[cfg(test)]
mod tests {
    use crate::config::load::tests::check_server as check;

    #[test]
    fn listening_beyond_loopback_needs_insecure() {
        check(
            "listen = \"0.0.0.0:7070\"",
            "server.toml:1:1: listen: `0.0.0.0:7070` can be reached by others, without TLS or a \
             token: bind 127.0.0.1, or set insecure = true in a trusted network",
        );
        check(
            "listen = \"7070\"",
            "server.toml:1:1: listen: `7070` is not HOST:PORT, such as 127.0.0.1:7070 or [::1]:7070",
        );
    }

    #[test]
    fn addresses_of_others_are_http() {
        check(
            "coordinator = \"https://ps:7070\"",
            "server.toml:1:1: coordinator: `https://ps:7070`: https is not supported yet; use \
             http:// in a trusted network",
        );
        check(
            "advertise = \"ps:7070\"",
            "server.toml:1:1: advertise: `ps:7070` is not http://HOST:PORT, such as \
             http://127.0.0.1:7070",
        );
    }

    #[test]
    fn sizes_and_counts_have_ranges() {
        check(
            "\n max_in_flight = 0",
            "server.toml:2:2: max_in_flight: 0 is not in 1..=1024",
        );
        check(
            "lease_ttl = \"0s\"",
            "server.toml:1:1: lease_ttl: must be above 0",
        );
    }
}
