//! The layers as one tree, in which every key still knows where it was set.

use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{ConfigError, Place};

/// A value, and where its key stands (for a list's element: where it begins).
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Node {
    pub(super) place: Place,
    pub(super) value: Value,
    /// A single value of an override as it was written, for keys that want text: `2024` may be
    /// a number or a name.
    pub(super) text: Option<String>,
}

/// What TOML can say.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    /// In the order of the file.
    Table(Vec<(String, Node)>),
    Array(Vec<Node>),
    String(String),
    Integer(i128),
    Float(f64),
    Boolean(bool),
    Datetime(String),
}

impl Node {
    /// Reads a file's text.
    pub(super) fn parse(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let at = |offset: usize| {
            let before = text.get(..offset).unwrap_or(text);
            let line = before.rsplit('\n').next().unwrap_or(before);
            Place::Line {
                path: path.to_path_buf(),
                line: before.matches('\n').count() + 1,
                column: line.chars().count() + 1,
            }
        };
        let table = DeTable::parse(text).map_err(|error| ConfigError::Syntax {
            place: at(error.span().map_or(0, |span| span.start)),
            message: error.message().into(),
        })?;
        Ok(Self {
            place: Place::File {
                path: path.to_path_buf(),
            },
            value: table_value(table.into_inner(), &at)?,
            text: None,
        })
    }

    /// Reads the value of an override: TOML where it is TOML, else plain text.
    pub(super) fn parse_override(text: &str, place: &Place) -> Result<Self, ConfigError> {
        let value = match DeValue::parse(text.trim()) {
            Ok(value) => any_value(value, &|_| place.clone())?,
            Err(_) => Value::String(text.into()),
        };
        Ok(Self {
            text: value.is_single().then(|| text.into()),
            place: place.clone(),
            value,
        })
    }

    /// Puts a value at a dotted key, over what is there; sections in between are created.
    pub(super) fn overlay(&mut self, key: &[&str], node: Self) -> Result<(), ConfigError> {
        let mut at = self;
        for (depth, name) in key.iter().enumerate() {
            let Value::Table(entries) = &mut at.value else {
                return Err(ConfigError::Value {
                    place: node.place,
                    key: key[..depth].join("."),
                    rule: "has no keys of its own; set it as a whole".into(),
                });
            };
            let index = entries.iter().position(|(known, _)| known == name);
            let index = index.unwrap_or_else(|| {
                let section = Self {
                    place: node.place.clone(),
                    value: Value::Table(Vec::new()),
                    text: None,
                };
                entries.push(((*name).into(), section));
                entries.len() - 1
            });
            at = &mut entries[index].1;
        }
        *at = node;
        Ok(())
    }

    /// The place of a dotted key, or of the innermost section around it that was written.
    pub(super) fn place_of(&self, key: &str) -> &Place {
        let key = key.strip_prefix('.').unwrap_or(key);
        let child = match &self.value {
            // Compared as a prefix, since a table's name may have dots of its own.
            Value::Table(entries) => entries.iter().find_map(|(name, node)| {
                let rest = key.strip_prefix(name.as_str())?;
                (rest.is_empty() || rest.starts_with(['.', '['])).then_some((node, rest))
            }),
            Value::Array(nodes) => key
                .strip_prefix('[')
                .and_then(|key| key.split_once(']'))
                .and_then(|(index, rest)| Some((nodes.get(index.parse::<usize>().ok()?)?, rest))),
            _ => None,
        };
        child.map_or(&self.place, |(node, rest)| node.place_of(rest))
    }

    /// The value of a key of this table.
    pub(super) fn child(&self, key: &str) -> Option<&Self> {
        match &self.value {
            Value::Table(entries) => entries.iter().find(|(name, _)| name == key).map(|e| &e.1),
            _ => None,
        }
    }
}

impl Value {
    fn is_single(&self) -> bool {
        !matches!(self, Self::Table(_) | Self::Array(_) | Self::String(_))
    }
}

fn table_value(table: DeTable<'_>, at: &dyn Fn(usize) -> Place) -> Result<Value, ConfigError> {
    let mut entries: Vec<_> = table.into_iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    let entries = entries.into_iter().map(|(key, value)| {
        let place = at(key.span().start);
        Ok((key.into_inner().into_owned(), node(value, place, at)?))
    });
    Ok(Value::Table(entries.collect::<Result<_, ConfigError>>()?))
}

fn node(
    value: Spanned<DeValue<'_>>,
    place: Place,
    at: &dyn Fn(usize) -> Place,
) -> Result<Node, ConfigError> {
    Ok(Node {
        value: any_value(value, at)?,
        place,
        text: None,
    })
}

fn any_value(
    value: Spanned<DeValue<'_>>,
    at: &dyn Fn(usize) -> Place,
) -> Result<Value, ConfigError> {
    let start = value.span().start;
    let too_large = |number: &str| ConfigError::Syntax {
        place: at(start),
        message: format!("the number {number} is too large"),
    };
    Ok(match value.into_inner() {
        DeValue::Table(table) => table_value(table, at)?,
        DeValue::Array(array) => {
            let nodes = array.into_iter().map(|element| {
                let place = at(element.span().start);
                node(element, place, at)
            });
            Value::Array(nodes.collect::<Result<_, ConfigError>>()?)
        }
        DeValue::String(text) => Value::String(text.into_owned()),
        DeValue::Boolean(value) => Value::Boolean(value),
        DeValue::Datetime(value) => Value::Datetime(value.to_string()),
        DeValue::Integer(number) => Value::Integer(
            i128::from_str_radix(number.as_str(), number.radix())
                .map_err(|_| too_large(number.as_str()))?,
        ),
        DeValue::Float(number) => Value::Float(
            number
                .as_str()
                .parse()
                .map_err(|_| too_large(number.as_str()))?,
        ),
    })
}
