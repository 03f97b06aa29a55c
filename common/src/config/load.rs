//! The layers of a configuration: defaults, then the file, the environment, and `--set`.

use std::io::ErrorKind;
use std::path::Path;

use serde::de::DeserializeOwned;

use super::error::{ConfigError, Place};
use super::read::{keys_of, read};
use super::tree::Node;
use super::{ServerConfig, TrainConfig};

/// How variables that set keys begin.
const PREFIX: &str = "WINDLASS_";

/// Variables of ours that set no key: the log filter, and where tests find data.
const NOT_KEYS: [&str; 2] = ["WINDLASS_LOG", "WINDLASS_TEST_DATA"];

impl TrainConfig {
    /// Reads `train.toml` with its overrides and checks it.
    ///
    /// `environment` is all of the process's: `WINDLASS_TRAIN__BATCH_SIZE=512` sets
    /// `train.batch_size`. `set` is what `--set` was given: `train.batch_size=512`. Values of both
    /// are TOML where they parse as such, else text.
    ///
    /// # Errors
    /// A [`ConfigError`] that names the place and the key.
    pub fn load(
        path: &Path,
        environment: impl IntoIterator<Item = (String, String)>,
        set: &[String],
    ) -> Result<Self, ConfigError> {
        load(path, environment, set)
    }

    /// Reads the text of a `train.toml` alone, such as a checkpoint keeps; `name` is for messages.
    ///
    /// # Errors
    /// A [`ConfigError`] that names the place and the key.
    pub fn parse(name: &Path, text: &str) -> Result<Self, ConfigError> {
        layers(name, text, [], &[])
    }
}

impl ServerConfig {
    /// Reads `server.toml` with its overrides and checks it.
    ///
    /// `environment` is all of the process's: `WINDLASS_LISTEN=0.0.0.0:7070` sets `listen`. `set`
    /// is what `--set` was given: `listen=0.0.0.0:7070`. Values of both are TOML where they parse
    /// as such, else text.
    ///
    /// # Errors
    /// A [`ConfigError`] that names the place and the key.
    pub fn load(
        path: &Path,
        environment: impl IntoIterator<Item = (String, String)>,
        set: &[String],
    ) -> Result<Self, ConfigError> {
        load(path, environment, set)
    }
}

/// A struct that has a file of its own.
pub(super) trait File: DeserializeOwned {
    /// The struct of the other file: its variables may be in the same environment.
    type Other: DeserializeOwned;

    /// Checks ranges and relations.
    fn validate(&self) -> Result<(), ConfigError>;
}

impl File for TrainConfig {
    type Other = ServerConfig;

    fn validate(&self) -> Result<(), ConfigError> {
        Self::validate(self)
    }
}

impl File for ServerConfig {
    type Other = TrainConfig;

    fn validate(&self) -> Result<(), ConfigError> {
        Self::validate(self)
    }
}

fn load<T: File>(
    path: &Path,
    environment: impl IntoIterator<Item = (String, String)>,
    set: &[String],
) -> Result<T, ConfigError> {
    let text = std::fs::read_to_string(path).map_err(|source| {
        let path = path.to_path_buf();
        match source.kind() {
            ErrorKind::NotFound => ConfigError::NotFound { path },
            _ => ConfigError::Read { path, source },
        }
    })?;
    layers(path, &text, environment, set)
}

pub(super) fn layers<T: File>(
    path: &Path,
    text: &str,
    environment: impl IntoIterator<Item = (String, String)>,
    set: &[String],
) -> Result<T, ConfigError> {
    let mut root = Node::parse(path, text)?;
    // Sorted, so that of several mistakes the same one is told each time.
    let mut variables: Vec<_> = environment.into_iter().collect();
    variables.sort_unstable();
    for (name, value) in variables {
        if let Some(key) = key_of_variable::<T>(&name) {
            let key: Vec<&str> = key.split("__").collect();
            let node = Node::parse_override(&value, &Place::Environment { name })?;
            root.overlay(&key, node)?;
        }
    }
    for text in set {
        let place = Place::Set { text: text.clone() };
        let Some((key, value)) = text.split_once('=') else {
            let rule = "must be KEY=VALUE, such as train.batch_size=512";
            return Err(ConfigError::Override { place, rule });
        };
        let key: Vec<&str> = key.split('.').map(str::trim).collect();
        root.overlay(&key, Node::parse_override(value, &place)?)?;
    }
    let config: T = read(&root)?;
    match config.validate() {
        Err(ConfigError::Invalid { key, rule }) => Err(ConfigError::Value {
            place: root.place_of(&key).clone(),
            key,
            rule,
        }),
        checked => checked.map(|()| config),
    }
}

/// The key that a variable sets in this file, its parts joined by `__`; `None` if it is not meant
/// for this file. A name that fits neither file is a key too, an unknown one: it may be misspelt.
fn key_of_variable<T: File>(name: &str) -> Option<String> {
    let key = name.strip_prefix(PREFIX)?.to_lowercase();
    if NOT_KEYS.contains(&name) || is_kubernetes_service(&key) {
        return None;
    }
    let first = key.split("__").next().unwrap_or(&key);
    (!keys_of::<T::Other>().contains(&first)).then_some(key)
}

/// Kubernetes puts the addresses of a service `windlass-x` into every pod's environment, as
/// `WINDLASS_X_SERVICE_HOST`, `WINDLASS_X_PORT_7070_TCP` and the like. No key has such a name.
fn is_kubernetes_service(key: &str) -> bool {
    let ends = ["service_host", "service_port", "port"];
    ends.iter().any(|end| key.ends_with(end))
        || key.contains("service_port_")
        || key.contains("port_") && ["_tcp", "_udp", "_sctp"].iter().any(|p| key.contains(p))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A job that may run: tests add what is wrong.
    pub(in crate::config) const JOB: &str = "[data]\ntrain = [\"a.svm\"]\n";

    fn pairs(environment: &[(&str, &str)]) -> Vec<(String, String)> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_string(), (*value).to_string());
        environment.iter().map(owned).collect()
    }

    fn train(
        text: &str,
        environment: &[(&str, &str)],
        set: &[&str],
    ) -> Result<TrainConfig, String> {
        let set: Vec<String> = set.iter().map(ToString::to_string).collect();
        layers(Path::new("train.toml"), text, pairs(environment), &set).map_err(|e| e.to_string())
    }

    /// Checks that a train.toml is refused with exactly this line.
    #[track_caller]
    pub(in crate::config) fn check(text: &str, expected: &str) {
        assert_eq!(train(text, &[], &[]), Err(expected.into()));
    }

    /// Checks that a server.toml is refused with exactly this line.
    #[track_caller]
    pub(in crate::config) fn check_server(text: &str, expected: &str) {
        let config: Result<ServerConfig, _> = layers(Path::new("server.toml"), text, [], &[]);
        assert_eq!(config.map_err(|e| e.to_string()), Err(expected.into()));
    }

    /// Checks that overrides of the smallest job are refused with exactly this line.
    #[track_caller]
    fn check_overrides(environment: &[(&str, &str)], set: &[&str], expected: &str) {
        assert_eq!(train(JOB, environment, set), Err(expected.into()));
    }

    #[test]
    fn a_later_layer_wins() {
        let text = format!("{JOB}[train]\nbatch_size = 1\n");
        let variable = [("WINDLASS_TRAIN__BATCH_SIZE", "2")];
        let size =
            |environment: &[_], set: &[_]| train(&text, environment, set).unwrap().train.batch_size;
        assert_eq!(train(JOB, &[], &[]).unwrap().train.batch_size, 512);
        assert_eq!(size(&[], &[]), 1);
        assert_eq!(size(&variable, &[]), 2);
        let set = ["train.batch_size=3"];
        assert_eq!(size(&variable, &set), 3);
        assert_eq!(size(&variable, &[set[0], "train.batch_size=4"]), 4);
    }

    #[test]
    fn overrides_create_sections_and_take_any_value() {
        let config = train(
            JOB,
            &[
                ("WINDLASS_CLUSTER__COORDINATOR", "http://ps:7070"),
                ("WINDLASS_OPTIMIZER__TABLES__FACTORS__KIND", "sgd"),
                ("HOME", "/root"),
            ],
            &[
                "job.name=2024",
                "data.max_line=65536",
                "data.train=[\"b.svm\", \"c.svm\"]",
                "train.early_stop={ metric = \"auc\" }",
                "data.validation=[\"d.svm\"]",
            ],
        )
        .unwrap();
        assert_eq!(
            config.cluster.as_ref().unwrap().coordinator,
            "http://ps:7070"
        );
        assert_eq!(config.optimizer.of_table("factors").kind(), "sgd");
        assert_eq!(config.job.name, "2024");
        assert_eq!(config.data.max_line.bytes(), 65_536);
        assert_eq!(config.data.train, ["b.svm", "c.svm"]);
        assert_eq!(config.train.early_stop.unwrap().patience, 1);
        assert_eq!(config.cluster.unwrap().servers, 1);
    }

    #[test]
    fn variables_of_others_are_passed_over() {
        let others = [
            ("WINDLASS_LOG", "debug"),
            ("WINDLASS_TEST_DATA", "/data"),
            ("WINDLASS_LISTEN", "nonsense"),
            ("WINDLASS_SERVER_SERVICE_HOST", "10.0.0.1"),
            ("WINDLASS_SERVER_SERVICE_PORT_GRPC", "7070"),
            ("WINDLASS_SERVER_PORT", "tcp://10.0.0.1:7070"),
            ("WINDLASS_SERVER_PORT_7070_TCP_ADDR", "10.0.0.1"),
        ];
        assert_eq!(train(JOB, &others, &[]), train(JOB, &[], &[]));

        let path = Path::new("server.toml");
        let environment = pairs(&[
            ("WINDLASS_LISTEN", "127.0.0.1:1"),
            ("WINDLASS_TRAIN__EPOCHS", "nonsense"),
        ]);
        let config: ServerConfig = layers(path, "", environment, &[]).unwrap();
        assert_eq!(config.listen, "127.0.0.1:1");
    }

    #[test]
    fn no_key_looks_like_kubernetes_or_is_in_both_files() {
        let (train, server) = (keys_of::<TrainConfig>(), keys_of::<ServerConfig>());
        assert!(train.contains(&"optimizer") && server.contains(&"listen"));
        for key in train.iter().chain(server) {
            assert!(!is_kubernetes_service(key), "{key}");
            assert!(!(train.contains(key) && server.contains(key)), "{key}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("train.toml");
        let load = || TrainConfig::load(&path, [], &[]).unwrap_err().to_string();
        let place = path.display();
        assert_eq!(
            load(),
            format!("{place}: no such file; write it, or name the right one")
        );
        std::fs::write(&path, [0xff]).unwrap();
        assert_eq!(
            load(),
            format!("{place}: stream did not contain valid UTF-8")
        );
        std::fs::write(&path, JOB).unwrap();
        assert!(TrainConfig::load(&path, [], &[]).is_ok());
    }

    #[test]
    fn what_is_not_toml_is_named_with_its_place() {
        check(
            "[train]\nepochs = = 3\n",
            "train.toml:2:10: extra `=`, expected nothing",
        );
        check(
            "[train]\nepochs = 1\nepochs = 2\n",
            "train.toml:3:1: duplicate key",
        );
    }

    #[test]
    fn an_unknown_key_is_named_with_the_nearest() {
        let line = "train.toml:2:1: unknown key `train.bathc_size`; did you mean \
                    `train.batch_size`?";
        check("[train]\nbathc_size = 512\n", line);
        check(
            "[trian]\nepochs = 1\n",
            "train.toml:1:2: unknown key `trian`; did you mean `train`?",
        );
        check(
            "train = { epochs = 1, \"größe\" = 2 }\n",
            "train.toml:1:23: unknown key `train.größe`; `train` has epochs, batch_size, reduction, \
             consistency, prefetch, open_pushes, read_ahead, early_stop, output, \
             negative_sampling_rate",
        );
        check(
            "[train.early_stop]\nmetrik = \"auc\"\n",
            "train.toml:2:1: unknown key `train.early_stop.metrik`; did you mean \
             `train.early_stop.metric`?",
        );
        check(
            "epochs = 1\n",
            "train.toml:1:1: unknown key `epochs`; there are job, cluster, data, model, optimizer, \
             tables, train",
        );
        check_server(
            "lissen = \"127.0.0.1:7070\"\n",
            "server.toml:1:1: unknown key `lissen`; did you mean `listen`?",
        );
    }

    #[test]
    fn unknown_keys_of_optimizers_are_found_for_their_kind() {
        check(
            "[optimizer]\nkind = \"adagrad\"\nlearning_rat = 0.1\n",
            "train.toml:3:1: unknown key `optimizer.learning_rat`; did you mean \
             `optimizer.learning_rate`?",
        );
        check(
            "[optimizer]\nlearning_rate = 0.1\nknid = \"adam\"\n",
            "train.toml:3:1: unknown key `optimizer.knid`; did you mean `optimizer.kind`?",
        );
        check(
            "[optimizer.tables.factors]\nkind = \"ftrl\"\nlearning_rate = 0.1\n",
            "train.toml:3:1: unknown key `optimizer.tables.factors.learning_rate`; \
             `optimizer.tables.factors` has kind, alpha, beta, l1, l2",
        );
        check(
            "[optimizer]\nkind = \"adagard\"\n",
            "train.toml:2:1: optimizer.kind: \"adagard\" is none of sgd, momentum, adagrad, \
             rowwise_adagrad, adam, ftrl; did you mean \"adagrad\"?",
        );
        check(
            "[optimizer]\nlearning_rate = \"fast\"\n",
            "train.toml:2:1: optimizer.learning_rate: expected a number, found \"fast\"",
        );
        check(
            "[optimizer.tables]\nfactors = { kind = \"sgd\", l2 = true }\n",
            "train.toml:2:27: optimizer.tables.factors.l2: expected a number, found true",
        );
    }

    #[test]
    fn mistakes_in_columns_are_found_inside_of_them() {
        check(
            "[data]\nnumeric = [\n  \"age\",\n  { name = \"hours\", transfrom = \"log1p\" },\n]\n",
            "train.toml:4:21: unknown key `data.numeric[1].transfrom`; did you mean \
             `data.numeric[1].transform`?",
        );
        check(
            "[data]\nnumeric = [{ name = \"hours\", transform = \"log\" }]\n",
            "train.toml:2:30: data.numeric[0].transform: `log` is no transform: use \"identity\", \
             \"log1p\", \"standardize\" or \"bucket(WIDTH)\" with a width above 0",
        );
        check(
            "[data]\nnumeric = [\"age\", 5]\n",
            "train.toml:2:19: data.numeric[1]: expected a column's name or { name = ..., transform \
             = ... }, found 5",
        );
    }

    #[test]
    fn a_wrong_type_is_named_with_what_was_expected() {
        check(
            "[train]\nbatch_size = \"many\"\n",
            "train.toml:2:1: train.batch_size: expected a whole number from 0 to 4294967295, found \
             \"many\"",
        );
        check(
            "[train]\nbatch_size = -1\n",
            "train.toml:2:1: train.batch_size: expected a whole number from 0 to 4294967295, found \
             -1",
        );
        check(
            "train = 5\n",
            "train.toml:1:1: train: expected a table, found 5",
        );
        check(
            "[data]\ntrain = \"a.csv\"\n",
            "train.toml:2:1: data.train: expected a list, found \"a.csv\"",
        );
        check(
            "[data]\ndelimiter = \"ab\"\n",
            "train.toml:2:1: data.delimiter: expected one character, found \"ab\"",
        );
        check(
            "[train]\nreduction = 5\n",
            "train.toml:2:1: train.reduction: must be one of mean, sum",
        );
        check(
            "[job]\nshards = 3\n",
            "train.toml:2:1: job.shards: 3 shards: must be a power of two from 1 to 4096",
        );
        check(
            "[job]\nname = \"\"\"a\nb\"\"\"\nseed = 99999999999999999999\n",
            "train.toml:4:1: job.seed: expected a whole number from 0 to 18446744073709551615, \
             found 99999999999999999999",
        );
        check_server(
            "lease_ttl = \"10\"\n",
            "server.toml:1:1: lease_ttl: `10` is not a time such as \"250ms\", \"5s\" or \"10m\"",
        );
    }

    #[test]
    fn mistakes_of_overrides_name_the_override() {
        check_overrides(
            &[("WINDLASS_TRAIN__BATHC_SIZE", "512")],
            &[],
            "WINDLASS_TRAIN__BATHC_SIZE: unknown key `train.bathc_size`; did you mean \
             `train.batch_size`?",
        );
        check_overrides(
            &[("WINDLASS_EPOCHS", "512")],
            &[],
            "WINDLASS_EPOCHS: unknown key `epochs`; there are job, cluster, data, model, \
             optimizer, tables, train",
        );
        check_overrides(
            &[("WINDLASS_TRAIN__EPOCHS", "0")],
            &[],
            "WINDLASS_TRAIN__EPOCHS: train.epochs: must be 1 or more",
        );
        check_overrides(
            &[],
            &["train.batch_size=many"],
            "--set train.batch_size=many: train.batch_size: expected a whole number from 0 to \
             4294967295, found \"many\"",
        );
        check_overrides(
            &[],
            &["train.batch_size"],
            "--set train.batch_size: must be KEY=VALUE, such as train.batch_size=512",
        );
        check_overrides(
            &[],
            &["data.train.first=a.csv"],
            "--set data.train.first=a.csv: data.train: has no keys of its own; set it as a whole",
        );
    }

    #[test]
    fn a_broken_rule_is_named_where_its_key_or_its_section_stands() {
        let text = format!("{JOB}[train]\n  epochs = 0\n");
        check(&text, "train.toml:4:3: train.epochs: must be 1 or more");
        let empty = "there is nothing to train on: name files, such as [\"train/*.csv.gz\"]";
        check("[data]\n", &format!("train.toml:1:2: data.train: {empty}"));
        check("", &format!("train.toml: data.train: {empty}"));
    }
}
