//! From the tree to a struct: a serde format of our own, because serde's derives know the keys and
//! types of a section, and only a format can tell them from which line a value came.

use std::fmt::{self, Display};

use serde::de::value::StrDeserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error, Expected, IntoDeserializer, MapAccess,
    SeqAccess, Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;

use super::error::{ConfigError, Place, nearest};
use super::tree::{Node, Value};

/// Reads a whole tree.
pub(super) fn read<T: DeserializeOwned>(root: &Node) -> Result<T, ConfigError> {
    T::deserialize(Reader { node: root }).map_err(|fault| fault.inside(root).into_error(root))
}

/// The keys of a section, as its derive knows them.
pub(super) fn keys_of<T: DeserializeOwned>() -> &'static [&'static str] {
    // No section has a key without a name, so asking for it makes the derive tell all names.
    let node = |value| Node {
        place: Place::Set {
            text: String::new(),
        },
        value,
        text: None,
    };
    let probe = node(Value::Table(vec![(
        String::new(),
        node(Value::Boolean(true)),
    )]));
    match T::deserialize(Reader { node: &probe }).map_err(|fault| fault.problem) {
        Err(Problem::Unknown { known, .. }) => known,
        _ => &[],
    }
}

/// What went wrong, while it travels outwards and learns its place and its dotted key.
#[derive(Debug)]
pub(super) struct Fault {
    /// `.key` and `[index]`, outermost first.
    path: String,
    place: Option<Place>,
    problem: Problem,
}

#[derive(Debug)]
enum Problem {
    Unknown {
        key: String,
        known: &'static [&'static str],
    },
    Rule(String),
}

impl Fault {
    /// Learns the place, if this node is the innermost one.
    fn inside(mut self, node: &Node) -> Self {
        if self.place.is_none() {
            let place = match &self.problem {
                Problem::Unknown { key, .. } => node.child(key).unwrap_or(node).place.clone(),
                Problem::Rule(_) => node.place.clone(),
            };
            self.place = Some(place);
        }
        self
    }

    fn under(mut self, step: &str) -> Self {
        self.path.insert_str(0, step);
        self
    }

    fn into_error(self, root: &Node) -> ConfigError {
        let place = self.place.unwrap_or_else(|| root.place.clone());
        let section = self.path.trim_start_matches('.');
        match self.problem {
            Problem::Rule(rule) => ConfigError::Value {
                place,
                key: section.into(),
                rule,
            },
            Problem::Unknown { key, known } => {
                let dotted = |key: &str| format!("{}.{key}", self.path)[1..].to_string();
                let hint = match nearest(&key, known) {
                    Some(best) => format!("did you mean `{}`?", dotted(best)),
                    None if section.is_empty() => format!("there are {}", known.join(", ")),
                    None => format!("`{section}` has {}", known.join(", ")),
                };
                ConfigError::UnknownKey {
                    place,
                    key: dotted(&key),
                    hint,
                }
            }
        }
    }
}

impl Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.problem {
            Problem::Unknown { key, .. } => write!(f, "unknown key `{key}`"),
            Problem::Rule(rule) => f.write_str(rule),
        }
    }
}

impl std::error::Error for Fault {}

impl Error for Fault {
    fn custom<T: Display>(message: T) -> Self {
        Self {
            path: String::new(),
            place: None,
            problem: Problem::Rule(message.to_string()),
        }
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::custom(format_args!(
            "expected {}, found {}",
            type_in_words(&expected.to_string()),
            value_in_words(found)
        ))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::invalid_type(found, expected)
    }

    fn unknown_variant(variant: &str, expected: &'static [&'static str]) -> Self {
        let list = expected.join(", ");
        match nearest(variant, expected) {
            Some(best) => Self::custom(format_args!(
                "\"{variant}\" is none of {list}; did you mean \"{best}\"?"
            )),
            None => Self::custom(format_args!("\"{variant}\" is none of {list}")),
        }
    }

    fn unknown_field(field: &str, expected: &'static [&'static str]) -> Self {
        Self {
            path: String::new(),
            place: None,
            problem: Problem::Unknown {
                key: field.into(),
                known: expected,
            },
        }
    }
}

/// Serde speaks of Rust's types; a config has TOML's.
fn type_in_words(expected: &str) -> &str {
    match expected {
        "u32" => "a whole number from 0 to 4294967295",
        "u64" => "a whole number from 0 to 18446744073709551615",
        "f32" | "f64" => "a number",
        "a boolean" => "true or false",
        "a character" => "one character",
        "a sequence" => "a list",
        "a map" => "a table",
        "path string" => "a string",
        _ if expected.starts_with("struct ") => "a table",
        _ => expected,
    }
}

fn value_in_words(found: Unexpected<'_>) -> String {
    match found {
        Unexpected::Bool(value) => value.to_string(),
        Unexpected::Unsigned(value) => value.to_string(),
        Unexpected::Signed(value) => value.to_string(),
        Unexpected::Float(value) => format!("{value:?}"),
        Unexpected::Str(value) => format!("{value:?}"),
        Unexpected::Seq => "a list".into(),
        Unexpected::Map => "a table".into(),
        other => other.to_string(),
    }
}

/// One node, as serde asks for it.
struct Reader<'a> {
    node: &'a Node,
}

impl<'de> Deserializer<'de> for Reader<'_> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.node.value {
            Value::Table(entries) => visitor.visit_map(Entries {
                rest: entries,
                value: None,
            }),
            Value::Array(nodes) => visitor.visit_seq(Elements { nodes, next: 0 }),
            Value::String(text) | Value::Datetime(text) => visitor.visit_str(text),
            Value::Float(number) => visitor.visit_f64(*number),
            Value::Boolean(value) => visitor.visit_bool(*value),
            Value::Integer(number) => {
                if let Ok(number) = i64::try_from(*number) {
                    visitor.visit_i64(number)
                } else if let Ok(number) = u64::try_from(*number) {
                    visitor.visit_u64(number)
                } else {
                    // No key holds so large a number; shown as it was written.
                    let found = number.to_string();
                    Err(Fault::invalid_type(Unexpected::Other(&found), &visitor))
                }
            }
        }
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.node.text {
            Some(text) => visitor.visit_str(text),
            None => self.deserialize_any(visitor),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_str(visitor)
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match (&self.node.value, &self.node.text) {
            (Value::String(text), _) | (_, Some(text)) => {
                visitor.visit_enum(text.as_str().into_deserializer())
            }
            _ => Err(Fault::custom(format_args!(
                "must be one of {}",
                variants.join(", ")
            ))),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 bytes byte_buf unit unit_struct seq
        tuple tuple_struct map struct identifier ignored_any
    }
}

struct Entries<'a> {
    rest: &'a [(String, Node)],
    value: Option<&'a (String, Node)>,
}

impl<'de> MapAccess<'de> for Entries<'_> {
    type Error = Fault;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Fault> {
        let Some((entry, rest)) = self.rest.split_first() else {
            return Ok(None);
        };
        self.rest = rest;
        self.value = Some(entry);
        let name: StrDeserializer<'_, Fault> = entry.0.as_str().into_deserializer();
        seed.deserialize(name).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Fault> {
        let (name, node) = self
            .value
            .take()
            .ok_or_else(|| Fault::custom("a value was asked for before its key"))?;
        seed.deserialize(Reader { node })
            .map_err(|fault| fault.inside(node).under(&format!(".{name}")))
    }
}

struct Elements<'a> {
    nodes: &'a [Node],
    next: usize,
}

impl<'de> SeqAccess<'de> for Elements<'_> {
    type Error = Fault;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Fault> {
        let Some(node) = self.nodes.get(self.next) else {
            return Ok(None);
        };
        let step = format!("[{}]", self.next);
        self.next += 1;
        seed.deserialize(Reader { node })
            .map(Some)
            .map_err(|fault| fault.inside(node).under(&step))
    }
}
