//! How much memory a message takes when it is decoded, told from its bytes before it is.
//!
//! Two bytes on the wire may be an element of a list that takes a hundred in memory, and four bytes
//! a list of its own. A walk over the fields counts what the lists and maps of a message will take;
//! it goes by the shapes of all messages, which the build writes down from the `.proto` files.

use crate::error::{ErrorKind, WireError};
use crate::limits;

/// The most bytes that the lists and maps of one message may take: eight times the largest message.
/// What Windlass itself sends stays below; a list that grows takes half as much again for a moment.
pub const MOST: usize = 8 * limits::Limits::MAX_MESSAGE;

/// A message whose shape is known.
pub trait Shaped {
    /// Its place in the table of shapes.
    const SHAPE: usize;
}

/// A message's fields, as far as they may take memory.
struct Shape {
    fields: &'static [Field],
}

struct Field {
    number: u32,
    kind: Kind,
}

enum Kind {
    /// A message of this shape, in its place.
    One(usize),
    /// A list of messages: their shape, and what one of them takes.
    Messages(usize, usize),
    /// A list of strings or bytes, and what one of them takes beside its content.
    Texts(usize),
    /// A list of numbers: what one takes in memory, and on the wire if that is always the same.
    Numbers(usize, Option<usize>),
    /// A map: the shape of an entry, and what its key and its value take.
    Map(usize, usize),
}

mod shapes {
    use std::mem::size_of;

    use super::{Field, Kind, Shape, Shaped};
    use crate::v1;

    include!(concat!(env!("OUT_DIR"), "/shapes.rs"));
}

/// Refuses a message that takes more memory than [`MOST`]. Costs a walk over its fields; what is in
/// strings and bytes is passed by.
///
/// # Errors
/// `TooLarge`; `Invalid` for bytes that are no message.
pub fn require_affordable<M: Shaped>(message: &[u8]) -> Result<(), WireError> {
    let mut purse = Purse { left: MOST };
    purse.walk(message, &shapes::SHAPES[M::SHAPE])
}

struct Purse {
    left: usize,
}

impl Purse {
    fn walk(&mut self, mut bytes: &[u8], shape: &Shape) -> Result<(), WireError> {
        // Elements of the list at hand. Who sends lists in pieces pays for each anew.
        let (mut list, mut count) = (0, 0);
        while !bytes.is_empty() {
            let tag = varint(&mut bytes)?;
            let number = u32::try_from(tag >> 3).map_err(|_| malformed())?;
            let value = value(&mut bytes, tag & 7)?;
            let Some(field) = shape.fields.iter().find(|f| f.number == number) else {
                continue;
            };
            if number != list {
                (list, count) = (number, 0);
            }
            let before = count;
            match field.kind {
                Kind::One(shape) => self.walk_within(value, shape)?,
                Kind::Messages(shape, size) => {
                    count += 1;
                    self.pay(size, capacity(count) - capacity(before))?;
                    self.walk_within(value, shape)?;
                }
                Kind::Texts(size) => {
                    count += 1;
                    self.pay(size, capacity(count) - capacity(before))?;
                }
                Kind::Numbers(size, wire) => {
                    count += numbers(&value, wire);
                    self.pay(size, capacity(count) - capacity(before))?;
                }
                Kind::Map(shape, size) => {
                    count += 1;
                    self.pay(size, slots(count) - slots(before))?;
                    self.walk_within(value, shape)?;
                }
            }
        }
        Ok(())
    }

    fn walk_within(&mut self, value: Value<'_>, shape: usize) -> Result<(), WireError> {
        match value {
            Value::Bytes(bytes) => self.walk(bytes, &shapes::SHAPES[shape]),
            // The decoder refuses it.
            Value::Number => Ok(()),
        }
    }

    fn pay(&mut self, size: usize, count: usize) -> Result<(), WireError> {
        let price = size.saturating_mul(count);
        match self.left.checked_sub(price) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                let why = format!("a message whose lists take more than {MOST} bytes of memory");
                Err(WireError::new(ErrorKind::TooLarge, why))
            }
        }
    }
}

/// What is behind a tag.
enum Value<'a> {
    Number,
    Bytes(&'a [u8]),
}

/// Takes a value of a wire type off the front.
fn value<'a>(bytes: &mut &'a [u8], wire_type: u64) -> Result<Value<'a>, WireError> {
    let length = match wire_type {
        0 => return varint(bytes).map(|_| Value::Number),
        1 => 8,
        5 => 4,
        2 => usize::try_from(varint(bytes)?).map_err(|_| malformed())?,
        // Groups: no version of the protocol has any.
        _ => return Err(malformed()),
    };
    let (content, rest) = bytes.split_at_checked(length).ok_or_else(malformed)?;
    *bytes = rest;
    Ok(match wire_type {
        2 => Value::Bytes(content),
        _ => Value::Number,
    })
}

fn varint(bytes: &mut &[u8]) -> Result<u64, WireError> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first().ok_or_else(malformed)?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err(malformed())
}

/// How many numbers a value of a list is: one, or many that are packed.
fn numbers(value: &Value<'_>, wire: Option<usize>) -> usize {
    match (value, wire) {
        (Value::Number, _) => 1,
        (Value::Bytes(bytes), Some(wire)) => bytes.len() / wire,
        // The last byte of a varint has no top bit.
        (Value::Bytes(bytes), None) => bytes.iter().filter(|byte| **byte < 0x80).count(),
    }
}

/// The room of a `Vec` to which so many elements were pushed.
fn capacity(count: usize) -> usize {
    match count {
        0 => 0,
        count => count.next_power_of_two().max(4),
    }
}

/// The room of a `BTreeMap` of so many entries: nodes have 11 places, and at least 5 entries but for
/// the first.
fn slots(count: usize) -> usize {
    // A node's own fields take less than one entry's place.
    12 * count.div_ceil(5)
}

fn malformed() -> WireError {
    WireError::new(
        ErrorKind::Invalid,
        "not a message in protobuf's wire format",
    )
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;
    use crate::v1;

    /// A message of fields that are told by number and content.
    fn message(fields: &[(u8, &[u8])]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (number, content) in fields {
            bytes.push(number << 3 | 2);
            prost::encode_length_delimiter(content.len(), &mut bytes).unwrap();
            bytes.extend(*content);
        }
        bytes
    }

    fn check<M: Shaped>(bytes: &[u8], expected: Option<ErrorKind>) {
        let refused = require_affordable::<M>(bytes).err();
        assert_eq!(refused.map(|error| error.kind), expected);
    }

    #[test]
    fn lists_of_nothing_cost_what_they_take() {
        // 5 jobs without anything: room for 8.
        let report = message(&[(6, &[][..]); 5]);
        let mut purse = Purse { left: MOST };
        let shape = &shapes::SHAPES[v1::ReportRequest::SHAPE];
        purse.walk(&report, shape).unwrap();
        assert_eq!(MOST - purse.left, 8 * size_of::<v1::JobReport>());
        let decoded = v1::ReportRequest::decode(&*report).unwrap();
        assert_eq!(decoded.jobs.capacity(), 8);
        // One with one shard: room for 4 of each.
        let report = message(&[(6, &message(&[(2, &[])]))]);
        let mut purse = Purse { left: MOST };
        purse.walk(&report, shape).unwrap();
        let taken = 4 * (size_of::<v1::JobReport>() + size_of::<v1::ShardReport>());
        assert_eq!(MOST - purse.left, taken);
    }

    #[test]
    fn packed_numbers_and_maps_cost_what_they_take() {
        let spent = |bytes: &[u8], shape: usize| {
            let mut purse = Purse { left: MOST };
            purse.walk(bytes, &shapes::SHAPES[shape]).unwrap();
            MOST - purse.left
        };
        let shard = v1::ShardReport {
            complete: vec![1, 300, 1 << 40, 7, 8],
            ..v1::ShardReport::default()
        };
        assert_eq!(spent(&shard.encode_to_vec(), v1::ShardReport::SHAPE), 8 * 8);
        let tally = v1::Tally {
            bins: vec![300; 4],
            bin_weights: vec![0.5; 9],
            ..v1::Tally::default()
        };
        assert_eq!(
            spent(&tally.encode_to_vec(), v1::Tally::SHAPE),
            4 * 4 + 16 * 8
        );
        let metrics = v1::EpochMetrics {
            train: [("auc".into(), 0.5)].into(),
            ..v1::EpochMetrics::default()
        };
        let entry = size_of::<(String, f64)>();
        assert_eq!(
            spent(&metrics.encode_to_vec(), v1::EpochMetrics::SHAPE),
            12 * entry
        );
    }

    #[test]
    fn a_message_that_takes_too_much_is_refused() {
        let jobs = vec![(6, &[][..]); 2 << 20];
        check::<v1::ReportRequest>(&message(&jobs), Some(ErrorKind::TooLarge));
        check::<v1::ReportRequest>(&message(&jobs[..100_000]), None);
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let refused = Some(ErrorKind::Invalid);
        check::<v1::NextRequest>(&[], None);
        // A tag alone, a length beyond the end, a number without end, a group.
        check::<v1::NextRequest>(&[0x1a], refused);
        check::<v1::NextRequest>(&[0x1a, 2, 0], refused);
        check::<v1::NextRequest>(&[0x08, 0xff], refused);
        check::<v1::NextRequest>(&[0xff; 11], refused);
        check::<v1::NextRequest>(&[0x0b, 0x0c], refused);
        // A field that a later version may have.
        check::<v1::NextRequest>(&[0x78, 1, 0x7a, 1, 0], None);
    }
}
