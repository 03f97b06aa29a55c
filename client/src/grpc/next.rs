//! A worker's question for work as a message and back.

use windlass_common::id::{JobId, WorkerId};
use windlass_proto::{WireError, v1};

use crate::transport::Next;

impl From<Next> for v1::NextRequest {
    fn from(next: Next) -> Self {
        Self {
            job: next.job.0,
            worker: next.worker.0,
            done: next.done.map(Into::into),
            leaving: next.leaving,
        }
    }
}

impl TryFrom<v1::NextRequest> for Next {
    type Error = WireError;

    fn try_from(message: v1::NextRequest) -> Result<Self, WireError> {
        Ok(Self {
            job: JobId(message.job),
            worker: WorkerId(message.worker),
            done: message.done.map(TryInto::try_into).transpose()?,
            leaving: message.leaving,
        })
    }
}

#[cfg(test)]
mod tests {
    use windlass_common::coordination::Outcome;
    use windlass_common::id::LeaseId;

    use super::*;

    #[test]
    fn a_question_survives_the_wire() {
        for done in [
            None,
            Some((LeaseId(7), Outcome::Abandoned("stopped".into()))),
        ] {
            let next = Next {
                job: JobId(1),
                worker: WorkerId(2),
                leaving: done.is_some(),
                done,
            };
            assert_eq!(
                Next::try_from(v1::NextRequest::from(next.clone())),
                Ok(next)
            );
        }
    }
}
