//! Rules of `server.toml`.

use std::path::PathBuf;

use super::address::{host_and_port, is_loopback, require_http};
use super::{require, require_within};
use crate::config::{ConfigError, Durability, ServerConfig};
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
        self.validate_durability()?;
        require_within(self.max_in_flight, 1..=1024, "max_in_flight")
    }

    fn validate_durability(&self) -> Result<(), ConfigError> {
        let durable = self.durability() != Durability::None;
        require(
            self.data_dir.is_some() || !durable,
            "durability",
            || "what is to survive needs a place: set data_dir",
        )?;
        let plain = |dir: &PathBuf| dir.file_name().is_some() && dir.to_str().is_some();
        require(
            self.data_dir.as_ref().is_none_or(plain),
            "data_dir",
            || "must be a folder's path, such as data/server-0",
        )?;
        let checkpoint = &self.checkpoint;
        require(
            !checkpoint.every.is_zero(),
            "checkpoint.every",
            || "must be above 0",
        )?;
        require_within(checkpoint.keep, 2..=10_000, "checkpoint.keep")?;
        require_within(checkpoint.full_every, 1..=1000, "checkpoint.full_every")?;
        let store = checkpoint.store.as_deref();
        require(
            store.is_none_or(|s| !s.is_empty()),
            "checkpoint.store",
            || "must be a folder, or s3://BUCKET/PREFIX",
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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

    #[test]
    fn what_survives_needs_a_place() {
        check(
            "durability = \"log\"",
            "server.toml:1:1: durability: what is to survive needs a place: set data_dir",
        );
        check(
            "data_dir = \"..\"",
            "server.toml:1:1: data_dir: must be a folder's path, such as data/server-0",
        );
        check(
            "checkpoint = { keep = 1 }",
            "server.toml:1:16: checkpoint.keep: 1 is not in 2..=10000",
        );
        check(
            "checkpoint = { every = \"0s\" }",
            "server.toml:1:16: checkpoint.every: must be above 0",
        );
        check(
            "checkpoint = { every = \"often\" }",
            "server.toml:1:16: checkpoint.every: `often` is neither a time such as \"10m\" nor a \
             number of examples such as \"5000000 examples\"",
        );
    }

    #[test]
    fn durability_follows_the_data_dir() {
        let config = |text: &str| toml::from_str::<ServerConfig>(text).unwrap();
        let plain = config("");
        assert_eq!(plain.durability(), Durability::None);
        assert_eq!(plain.checkpoint_store(), None);
        let logged = config("data_dir = \"data/server-0\"");
        assert_eq!(logged.durability(), Durability::Log);
        assert_eq!(logged.checkpoint_store().unwrap(), "data/checkpoints");
        let elsewhere = config(
            "data_dir = \"a/b\"\ndurability = \"checkpoint\"\ncheckpoint = { store = \"s3://b/p\" }",
        );
        assert_eq!(elsewhere.durability(), Durability::Checkpoint);
        assert_eq!(elsewhere.checkpoint_store().unwrap(), "s3://b/p");
    }
}
