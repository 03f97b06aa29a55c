//! The coordinator over gRPC: unary calls, each with a deadline.

use tonic::transport::Channel;
use windlass_common::coordination::{
    Assigned, Progress, Register, Registered, Report, ShardMap, Task,
};
use windlass_common::id::{CheckpointId, JobId, LeaseId, Lineage, WorkerId};
use windlass_common::status::ClusterStatus;
use windlass_proto::v1::admin_client::AdminClient;
use windlass_proto::v1::control_client::ControlClient;
use windlass_proto::v1::membership_client::MembershipClient;
use windlass_proto::{WireError, v1};

use super::channel::Peer;
use crate::transport::{Admin, Answered, Control, Membership, Next};

/// The coordinator, as a worker sees it, in another process.
pub struct GrpcControl {
    peer: Peer,
}

impl GrpcControl {
    pub(super) fn new(peer: Peer) -> Self {
        Self { peer }
    }

    fn client(&self) -> Result<ControlClient<Channel>, WireError> {
        let limit = self.peer.options.limits.message;
        Ok(ControlClient::new(self.peer.channel()?).max_decoding_message_size(limit))
    }
}

impl Control for GrpcControl {
    fn register(&self, register: Register) -> Answered<'_, Registered> {
        Box::pin(self.peer.within("Register", async move {
            let request = v1::RegisterRequest::from(register);
            self.client()?
                .register(request)
                .await?
                .into_inner()
                .try_into()
        }))
    }

    fn next(&self, next: Next) -> Answered<'_, (Task, Progress)> {
        Box::pin(self.peer.within("Next", async move {
            let request = v1::NextRequest::from(next);
            self.client()?.next(request).await?.into_inner().try_into()
        }))
    }

    fn renew(
        &self,
        job: JobId,
        worker: WorkerId,
        lease: LeaseId,
    ) -> Answered<'_, (bool, Progress)> {
        Box::pin(self.peer.within("Renew", async move {
            let request = v1::RenewRequest {
                job: job.0,
                worker: worker.0,
                lease: lease.0,
            };
            self.client()?.renew(request).await?.into_inner().try_into()
        }))
    }

    fn map(&self, job: JobId) -> Answered<'_, ShardMap> {
        Box::pin(self.peer.within("Map", async move {
            let request = v1::MapRequest { job: job.0 };
            self.client()?.map(request).await?.into_inner().try_into()
        }))
    }
}

/// The coordinator, as a server sees it, in another process.
pub struct GrpcMembership {
    peer: Peer,
}

impl GrpcMembership {
    pub(super) fn new(peer: Peer) -> Self {
        Self { peer }
    }
}

impl Membership for GrpcMembership {
    fn report(&self, report: Report) -> Answered<'_, Assigned> {
        Box::pin(self.peer.within("Report", async move {
            let limit = self.peer.options.limits.message;
            let mut client =
                MembershipClient::new(self.peer.channel()?).max_decoding_message_size(limit);
            let request = v1::ReportRequest::from(report);
            client.report(request).await?.into_inner().try_into()
        }))
    }
}

/// The coordinator, as people see it, in another process.
pub struct GrpcAdmin {
    peer: Peer,
}

impl GrpcAdmin {
    pub(super) fn new(peer: Peer) -> Self {
        Self { peer }
    }

    fn client(&self) -> Result<AdminClient<Channel>, WireError> {
        let limit = self.peer.options.limits.message;
        Ok(AdminClient::new(self.peer.channel()?).max_decoding_message_size(limit))
    }
}

impl Admin for GrpcAdmin {
    fn status(&self) -> Answered<'_, ClusterStatus> {
        Box::pin(self.peer.within("Status", async move {
            let status = self.client()?.status(v1::StatusRequest {}).await?;
            status.into_inner().try_into()
        }))
    }

    fn save(&self, job: String) -> Answered<'_, CheckpointId> {
        Box::pin(self.peer.within("Save", async move {
            let saved = self.client()?.save(v1::SaveRequest { job }).await?;
            Ok(CheckpointId(saved.into_inner().checkpoint))
        }))
    }

    fn restore(&self, job: String, checkpoint: CheckpointId) -> Answered<'_, Lineage> {
        Box::pin(self.peer.within("Restore", async move {
            let checkpoint = checkpoint.0;
            let request = v1::RestoreRequest { job, checkpoint };
            let restored = self.client()?.restore(request).await?;
            Ok(Lineage(restored.into_inner().lineage))
        }))
    }
}
