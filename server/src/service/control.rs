//! The control plane: each call is one question to the coordinator.

use std::sync::Arc;

use tonic::{Request, Response, Status};
use windlass_client::transport::{self, Next};
use windlass_common::coordination::{Register, Report};
use windlass_common::id::{JobId, LeaseId, WorkerId};
use windlass_proto::v1;
use windlass_proto::v1::control_server::Control;
use windlass_proto::v1::membership_server::Membership;

/// The coordinator, as workers see it.
pub(super) struct ControlService {
    pub(super) control: Arc<dyn transport::Control>,
}

#[tonic::async_trait]
impl Control for ControlService {
    async fn register(
        &self,
        request: Request<v1::RegisterRequest>,
    ) -> Result<Response<v1::RegisterResponse>, Status> {
        let register = Register::try_from(request.into_inner())?;
        let registered = self.control.register(register).await?;
        Ok(Response::new(registered.into()))
    }

    async fn next(
        &self,
        request: Request<v1::NextRequest>,
    ) -> Result<Response<v1::NextResponse>, Status> {
        let next = Next::try_from(request.into_inner())?;
        Ok(Response::new(self.control.next(next).await?.into()))
    }

    async fn renew(
        &self,
        request: Request<v1::RenewRequest>,
    ) -> Result<Response<v1::RenewResponse>, Status> {
        let v1::RenewRequest { job, worker, lease } = request.into_inner();
        let renewed = self
            .control
            .renew(JobId(job), WorkerId(worker), LeaseId(lease))
            .await?;
        Ok(Response::new(renewed.into()))
    }

    async fn map(
        &self,
        request: Request<v1::MapRequest>,
    ) -> Result<Response<v1::ShardMap>, Status> {
        let job = JobId(request.into_inner().job);
        Ok(Response::new(self.control.map(job).await?.into()))
    }
}

/// The coordinator, as servers see it.
pub(super) struct MembershipService {
    pub(super) membership: Arc<dyn transport::Membership>,
}

#[tonic::async_trait]
impl Membership for MembershipService {
    async fn report(
        &self,
        request: Request<v1::ReportRequest>,
    ) -> Result<Response<v1::ReportResponse>, Status> {
        let report = Report::try_from(request.into_inner())?;
        Ok(Response::new(self.membership.report(report).await?.into()))
    }
}
