//! Exact counts: a row and its gradient are whole numbers in limbs (`windlass_common::count`).

use windlass_common::count;

/// Takes one step: `w += g`, in integers.
///
/// A push whose gradient is no count is refused before it comes here. A row that is none, because
/// it passed 2^72 or came so from elsewhere, stays as it is: whoever reads it sees that it is none.
/// Shapes: weights and gradient are `[3]`; there are no slots.
pub(super) fn step(weights: &mut [f32], gradient: &[f32]) {
    if let (Some(held), Some(more)) = (count::read(weights), count::read_gradient(gradient)) {
        count::write(held + more, weights);
    }
}
