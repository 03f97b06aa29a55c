//! The cluster for people.

use std::sync::Arc;

use tonic::{Request, Response, Status};
use windlass_client::transport;
use windlass_common::id::CheckpointId;
use windlass_proto::v1;
use windlass_proto::v1::admin_server::Admin;

/// The coordinator, as people see it.
pub(super) struct AdminService {
    pub(super) admin: Arc<dyn transport::Admin>,
}

#[tonic::async_trait]
impl Admin for AdminService {
    async fn status(
        &self,
        _request: Request<v1::StatusRequest>,
    ) -> Result<Response<v1::StatusResponse>, Status> {
        Ok(Response::new(self.admin.status().await?.into()))
    }

    async fn save(
        &self,
        request: Request<v1::SaveRequest>,
    ) -> Result<Response<v1::SaveResponse>, Status> {
        let checkpoint = self.admin.save(request.into_inner().job).await?.0;
        Ok(Response::new(v1::SaveResponse { checkpoint }))
    }

    async fn restore(
        &self,
        request: Request<v1::RestoreRequest>,
    ) -> Result<Response<v1::RestoreResponse>, Status> {
        let v1::RestoreRequest { job, checkpoint } = request.into_inner();
        let lineage = self.admin.restore(job, CheckpointId(checkpoint)).await?.0;
        Ok(Response::new(v1::RestoreResponse { lineage }))
    }
}
