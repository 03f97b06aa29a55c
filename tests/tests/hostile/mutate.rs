//! Any bytes, and what may happen to good ones.

use windlass_common::split::Draw;

/// Inputs are no longer than this.
const LONGEST: usize = 64 << 10;

/// Numbers at which lengths go wrong.
const LENGTHS: [u64; 12] = [
    0,
    1,
    0x7f,
    0xff,
    0xffff,
    0x7fff_ffff,
    0xffff_ffff,
    1 << 28,
    1 << 32,
    1 << 40,
    u64::MAX / 2,
    u64::MAX,
];

fn place(draw: &mut Draw, length: usize) -> usize {
    usize::try_from(draw.below(length as u64 + 1)).unwrap()
}

fn byte(draw: &mut Draw) -> u8 {
    draw.bits().to_le_bytes()[7]
}

/// A few hundred random bytes at most.
pub(crate) fn any_bytes(draw: &mut Draw) -> Vec<u8> {
    let length = draw.below(300);
    (0..length).map(|_| byte(draw)).collect()
}

/// A sample that was changed, mostly once.
pub(crate) fn mutate(samples: &[Vec<u8>], draw: &mut Draw) -> Vec<u8> {
    let pick = |draw: &mut Draw| {
        samples[usize::try_from(draw.below(samples.len() as u64)).unwrap()].clone()
    };
    let mut bytes = pick(draw);
    loop {
        match draw.below(8) {
            0 | 1 => flip(&mut bytes, draw),
            2 => bytes.truncate(place(draw, bytes.len())),
            3 => {
                let at = place(draw, bytes.len());
                let more: Vec<u8> = any_bytes(draw);
                bytes.splice(at..at, more);
            }
            4 => repeat(&mut bytes, draw),
            5 => {
                let other = pick(draw);
                bytes.truncate(place(draw, bytes.len()));
                bytes.extend(&other[place(draw, other.len())..]);
            }
            _ => length(&mut bytes, draw),
        }
        bytes.truncate(LONGEST);
        if draw.below(3) > 0 {
            return bytes;
        }
    }
}

fn flip(bytes: &mut [u8], draw: &mut Draw) {
    if !bytes.is_empty() {
        let at = place(draw, bytes.len() - 1);
        bytes[at] ^= 1 << draw.below(8);
    }
}

/// Writes a piece many times.
fn repeat(bytes: &mut Vec<u8>, draw: &mut Draw) {
    let (a, b) = (place(draw, bytes.len()), place(draw, bytes.len()));
    let piece = bytes[a.min(b)..a.max(b)].to_vec();
    let most = LONGEST / piece.len().max(1);
    let few = 1 << draw.below(16);
    let times = place(draw, most.min(few));
    bytes.splice(a..a, piece.repeat(times));
}

/// Writes a length over what is there, of one to eight bytes.
fn length(bytes: &mut [u8], draw: &mut Draw) {
    let value = match draw.below(3) {
        0 => (bytes.len() as u64 + draw.below(3)).saturating_sub(1),
        _ => LENGTHS[usize::try_from(draw.below(12)).unwrap()],
    };
    let width = 1 << draw.below(4);
    let at = place(draw, bytes.len());
    let end = bytes.len().min(at + width);
    let value = value.to_le_bytes();
    bytes[at..end].copy_from_slice(&value[..end - at]);
}
