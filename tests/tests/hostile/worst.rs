//! Messages that are made to take as much memory as they can: lists of nothing, lists of lists.

use windlass_proto::Limits;

use crate::feed::{Target, must_survive};
use crate::wire;

/// What is at the end of a way.
const NOTHING: &[u8] = &[];
const NUMBERS: &[u8] = &[1; 64];

/// Fields on the way from a message to a list in it, by target, and what an element is on the wire.
const WAYS: [(&str, &[u8], &[u8]); 18] = [
    ("exchange_request", &[2, 3], NOTHING),
    ("exchange_request", &[3, 8], NOTHING),
    ("exchange_response", &[2, 3], NOTHING),
    ("register", &[4, 3], NOTHING),
    ("register", &[5, 1], NOTHING),
    ("register", &[6, 2], NOTHING),
    ("register", &[8, 2], NOTHING),
    ("register", &[8, 2, 2], NOTHING),
    ("report", &[6], NOTHING),
    ("report", &[6, 2], NOTHING),
    ("report", &[6, 2, 4], NUMBERS),
    ("report", &[6, 3, 7], NOTHING),
    ("next", &[3, 2, 1, 9], NUMBERS),
    ("assigned", &[3, 4, 3], NOTHING),
    ("task", &[2, 6, 2], NOTHING),
    ("status", &[2], NOTHING),
    ("status", &[3, 5], NOTHING),
    ("status", &[3, 8, 6], NOTHING),
];

/// A field with this content.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = vec![number << 3 | 2];
    prost::encode_length_delimiter(content.len(), &mut bytes).unwrap();
    bytes.extend(content);
    bytes
}

fn within(content: Vec<u8>, &number: &u8) -> Vec<u8> {
    field(number, &content)
}

/// About `size` bytes: one list at the end of the way, with as many elements as fit.
fn wide(way: &[u8], element: &[u8], size: usize) -> Vec<u8> {
    let (last, before) = way.split_last().unwrap();
    let list = field(*last, element).repeat(size / (2 + element.len()));
    before.iter().rev().fold(list, within)
}

/// About `size` bytes: the first fields of the way once, then as many ways on as fit, each to a list
/// of one element.
fn deep(way: &[u8], once: usize, element: &[u8], size: usize) -> Vec<u8> {
    let (once, many) = way.split_at(once);
    let rest = many.iter().rev().fold(element.to_vec(), within);
    let content = rest.repeat(size / rest.len());
    once.iter().rev().fold(content, within)
}

/// Feeds every way to every list, in messages of all lengths: a list doubles its room when it grows,
/// and is at its worst when it has just done so.
pub(crate) fn feed_the_worst() {
    let targets = wire::targets();
    let find = |name| targets.iter().find(|t: &&Target| t.name == name).unwrap();
    for (name, way, element) in WAYS {
        let sizes = (0..6).map(|halves| (Limits::MAX_MESSAGE - 64) >> halves);
        for size in sizes {
            must_survive(find(name), &wide(way, element, size));
            for once in 0..way.len() {
                must_survive(find(name), &deep(way, once, element, size));
            }
        }
    }
}
