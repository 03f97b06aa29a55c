//! `[optimizer]`: how rows are updated, for all tables and for single ones.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::value::MapDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::ConfigError;
use crate::optimizer::{Adagrad, Adam, Ftrl, Momentum, OptimizerSpec, Sgd};

/// `[optimizer]`: `kind` and its settings, for every table; `[optimizer.tables.NAME]` for one.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct OptimizerConfig {
    /// For tables that have none of their own.
    #[serde(flatten)]
    pub spec: OptimizerSpec,
    /// For single tables, by name (`linear`, `factors`, ...).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tables: BTreeMap<String, OptimizerSpec>,
}

impl OptimizerConfig {
    /// The optimizer of a table: its own, else the one for all.
    #[must_use]
    pub fn of_table(&self, name: &str) -> &OptimizerSpec {
        self.tables.get(name).unwrap_or(&self.spec)
    }

    /// Checks the settings' ranges, every table's too.
    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        let check = |section: &str, spec: &OptimizerSpec| {
            spec.validate()
                .map_err(|(field, rule)| ConfigError::Invalid {
                    key: format!("{section}.{field}"),
                    rule: rule.into(),
                })
        };
        check("optimizer", &self.spec)?;
        self.tables
            .iter()
            .try_for_each(|(name, spec)| check(&format!("optimizer.tables.{name}"), spec))
    }
}

/// What `kind` may be.
const KINDS: &[&str] = &[
    "sgd",
    "momentum",
    "adagrad",
    "rowwise_adagrad",
    "adam",
    "ftrl",
];

/// The keys of a kind's section; the last one is not for a single table's.
///
/// Written out, because serde tells a tagged enum's keys to nobody.
fn keys(spec: &OptimizerSpec) -> &'static [&'static str] {
    match spec {
        OptimizerSpec::Sgd(_) => &["kind", "learning_rate", "l2", "tables"],
        OptimizerSpec::Momentum(_) => &["kind", "learning_rate", "momentum", "l2", "tables"],
        OptimizerSpec::Adagrad(_) | OptimizerSpec::RowwiseAdagrad(_) => &[
            "kind",
            "learning_rate",
            "initial_accumulator",
            "epsilon",
            "l2",
            "tables",
        ],
        OptimizerSpec::Adam(_) => &[
            "kind",
            "learning_rate",
            "beta1",
            "beta2",
            "epsilon",
            "l2",
            "tables",
        ],
        OptimizerSpec::Ftrl(_) => &["kind", "alpha", "beta", "l1", "l2", "tables"],
        // The model's own: no config has it.
        OptimizerSpec::Count => &["kind", "tables"],
    }
}

// By hand: the derive of a flattened, tagged enum accepts unknown keys, and forgets which key a
// value came from. Here every value is read at its own key, before the kind says which are allowed.
impl<'de> Deserialize<'de> for OptimizerConfig {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Section {
            of_one_table: false,
        })
    }
}

/// `[optimizer.tables.NAME]`
struct OneTable(OptimizerSpec);

impl<'de> Deserialize<'de> for OneTable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let section = deserializer.deserialize_map(Section { of_one_table: true })?;
        Ok(Self(section.spec))
    }
}

/// `kind`, known to be one.
struct Kind(String);

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let kind = String::deserialize(deserializer)?;
        spec_from::<D::Error>(&kind, &[])?;
        Ok(Self(kind))
    }
}

struct Section {
    of_one_table: bool,
}

impl<'de> Visitor<'de> for Section {
    type Value = OptimizerConfig;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a table")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<OptimizerConfig, A::Error> {
        let mut kind = OptimizerSpec::default().kind().to_string();
        let mut tables = BTreeMap::new();
        let mut settings: Vec<(String, Result<f64, A::Error>)> = Vec::new();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "kind" => kind = map.next_value::<Kind>()?.0,
                "tables" if !self.of_one_table => {
                    tables = map.next_value::<BTreeMap<String, OneTable>>()?;
                }
                // Kept as it is: an unknown key is worse than its value.
                _ => {
                    let value = map.next_value::<f64>();
                    settings.push((key, value));
                }
            }
        }
        let known = keys(&spec_from::<A::Error>(&kind, &[])?);
        let known = &known[..known.len() - usize::from(self.of_one_table)];
        if let Some((key, _)) = settings.iter().find(|s| !known.contains(&s.0.as_str())) {
            return Err(A::Error::unknown_field(key, known));
        }
        let settings = settings
            .into_iter()
            .map(|(key, value)| Ok((key, value?)))
            .collect::<Result<Vec<_>, A::Error>>()?;
        Ok(OptimizerConfig {
            spec: spec_from(&kind, &settings)?,
            tables: tables.into_iter().map(|(name, t)| (name, t.0)).collect(),
        })
    }
}

/// Reads a spec of a kind with some settings.
fn spec_from<E: Error>(kind: &str, settings: &[(String, f64)]) -> Result<OptimizerSpec, E> {
    let settings = MapDeserializer::new(settings.iter().map(|(key, value)| (key.as_str(), *value)));
    Ok(match kind {
        "sgd" => OptimizerSpec::Sgd(Sgd::deserialize(settings)?),
        "momentum" => OptimizerSpec::Momentum(Momentum::deserialize(settings)?),
        "adagrad" => OptimizerSpec::Adagrad(Adagrad::deserialize(settings)?),
        "rowwise_adagrad" => OptimizerSpec::RowwiseAdagrad(Adagrad::deserialize(settings)?),
        "adam" => OptimizerSpec::Adam(Adam::deserialize(settings)?),
        "ftrl" => OptimizerSpec::Ftrl(Ftrl::deserialize(settings)?),
        _ => return Err(E::unknown_variant(kind, KINDS)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the derive writes is what the hand-written reader knows, for every kind.
    #[test]
    fn every_setting_of_every_kind_is_known() {
        for kind in KINDS {
            let spec = spec_from::<toml::de::Error>(kind, &[]).unwrap();
            assert_eq!(spec.kind(), *kind);
            let written = toml::Table::try_from(&spec).unwrap();
            let mut known = keys(&spec).to_vec();
            assert_eq!(known.pop(), Some("tables"));
            known.sort_unstable();
            assert_eq!(
                written.keys().map(String::as_str).collect::<Vec<_>>(),
                known
            );
        }
    }

    #[test]
    fn kind_may_stand_anywhere_and_is_adagrad_where_it_is_missing() {
        let read = |text| toml::from_str::<OptimizerConfig>(text).unwrap();
        let ftrl = Ftrl {
            alpha: 0.5,
            ..Ftrl::default()
        };
        let config = read("alpha = 0.5\nkind = \"ftrl\"\ntables.factors = { learning_rate = 1 }");
        assert_eq!(config.spec, OptimizerSpec::Ftrl(ftrl));
        let one = OptimizerSpec::Adagrad(Adagrad {
            learning_rate: 1.0,
            ..Adagrad::default()
        });
        assert_eq!(config.of_table("factors"), &one);
        assert_eq!(config.of_table("linear"), &config.spec);
        assert_eq!(read(""), OptimizerConfig::default());
    }
}
