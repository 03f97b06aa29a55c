//! Effective values as TOML: what a run really used, ready to be used again.

use serde::Serialize;

use super::{ServerConfig, TrainConfig};

impl TrainConfig {
    /// Writes all effective values; loading them gives an equal config.
    #[must_use]
    pub fn to_toml(&self) -> String {
        to_toml(self)
    }
}

impl ServerConfig {
    /// Writes all effective values; loading them gives an equal config.
    #[must_use]
    pub fn to_toml(&self) -> String {
        to_toml(self)
    }
}

#[expect(
    clippy::expect_used,
    reason = "keys are strings, values have TOML types, and paths come from text"
)]
fn to_toml(config: &impl Serialize) -> String {
    toml::to_string(config).expect("a configuration is TOML")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use proptest::prelude::*;

    use super::super::load::{File, layers};
    use super::super::*;
    use crate::human::{Size, Span};
    use crate::optimizer::{Adagrad, Adam, Ftrl, Momentum, OptimizerSpec, Sgd};
    use crate::shard::ShardCount;
    use crate::tally::Metric;

    fn reload<T: File>(text: &str) -> T {
        layers(Path::new("printed.toml"), text, [], &[]).unwrap_or_else(|e| panic!("{e}\n{text}"))
    }

    fn spec() -> impl Strategy<Value = OptimizerSpec> {
        let rate = 1e-6f32..10.0;
        (0..6, rate.clone(), rate, 0.0f32..1.0).prop_map(|(kind, rate, l2, share)| match kind {
            0 => OptimizerSpec::Sgd(Sgd {
                learning_rate: rate,
                l2,
            }),
            1 => OptimizerSpec::Momentum(Momentum {
                learning_rate: rate,
                momentum: share,
                l2,
            }),
            2 => OptimizerSpec::Adagrad(Adagrad {
                initial_accumulator: l2,
                ..Adagrad::default()
            }),
            3 => OptimizerSpec::RowwiseAdagrad(Adagrad {
                epsilon: rate,
                ..Adagrad::default()
            }),
            4 => OptimizerSpec::Adam(Adam {
                beta1: share,
                l2,
                ..Adam::default()
            }),
            _ => OptimizerSpec::Ftrl(Ftrl {
                alpha: rate,
                l1: l2,
                ..Ftrl::default()
            }),
        })
    }

    prop_compose! {
        /// A valid job on CSV files; every kind of value and every optional key takes part.
        fn job()(
            seed: u64,
            shards in 0u32..=12,
            text in "[ -~\u{e4}\t\n\"']{1,12}",
            cluster in proptest::option::of(1u64..1_000_000),
            (spec, table) in (spec(), proptest::option::of(spec())),
            (width, rate) in (1e-3f64..1e9, 1e-6f64..=1.0),
            early in proptest::option::of(1u32..100),
            size in proptest::option::of(1u64..1 << 40),
        ) -> TrainConfig {
            let numeric = |name: &str, transform, mean| Column::Numeric(NumericColumn {
                name: name.into(),
                transform,
                mean,
                std: None,
            });
            TrainConfig {
                job: JobConfig {
                    name: "a.b".into(),
                    seed,
                    shards: ShardCount::new(1 << shards).unwrap(),
                },
                cluster: cluster.map(|seconds| ClusterConfig {
                    patience: Span::from_secs(seconds),
                    ..ClusterConfig::default()
                }),
                data: DataConfig {
                    format: Format::Csv,
                    train: vec![text.clone()],
                    validation: vec!["v.csv".into()],
                    label: Some("label".into()),
                    positive: Some(text.clone()),
                    categorical: vec!["color".into()],
                    numeric: vec![
                        Column::Plain("age".into()),
                        numeric("pay", Transform::Bucket { width }, None),
                        numeric("size", Transform::Standardize, Some(width)),
                    ],
                    crosses: vec![vec!["color".into(), "pay".into()]],
                    delimiter: '\t',
                    missing: vec![text],
                    split_size: size.map(Size::from_bytes),
                    ..DataConfig::default()
                },
                model: ModelConfig::default(),
                optimizer: OptimizerConfig {
                    spec,
                    tables: table.into_iter().map(|t| ("my.table".into(), t)).collect(),
                },
                tables: size.into_iter().map(|size| ("my.table".into(), TableConfig {
                    admission: early.unwrap_or(1),
                    ttl: cluster,
                    max_bytes: Some(Size::from_bytes(size)),
                    ..TableConfig::default()
                })).collect(),
                train: TrainSection {
                    negative_sampling_rate: rate,
                    output: early.map(|_| "some/where".into()),
                    early_stop: early.map(|patience| EarlyStop {
                        metric: Metric::Auc,
                        patience,
                    }),
                    ..TrainSection::default()
                },
            }
        }
    }

    proptest! {
        #[test]
        fn a_printed_job_loads_back_to_itself(config in job()) {
            prop_assert_eq!(reload::<TrainConfig>(&config.to_toml()), config);
        }
    }

    #[test]
    fn a_printed_server_loads_back_to_itself() {
        let default = ServerConfig::default();
        assert_eq!(reload::<ServerConfig>(&default.to_toml()), default);
        let other = ServerConfig {
            listen: "0.0.0.0:0".into(),
            advertise: Some("http://ps-0.ps:7070".into()),
            coordinator: "http://ps-1.ps:7070".into(),
            insecure: true,
            lease_ttl: Span::from_secs(3),
            ..default
        };
        assert_eq!(reload::<ServerConfig>(&other.to_toml()), other);
    }

    #[test]
    fn numbers_are_printed_as_they_were_written() {
        let text = TrainConfig::default().to_toml();
        assert!(text.contains("learning_rate = 0.05\n"), "{text}");
    }
}
