//! Messages to bytes and back, as gRPC does it, but that no message takes more memory than it may.

use std::marker::PhantomData;

use prost::Message;
use prost::bytes::Buf;
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder};
use tonic_prost::{ProstCodec, ProstEncoder};

use crate::error::{ErrorKind, WireError};
use crate::memory::{Shaped, require_affordable};

/// Decodes a message, if it takes no more memory than a message may.
///
/// # Errors
/// `TooLarge` for one that takes more, `Invalid` for bytes that are none.
pub fn decode<M: Message + Default + Shaped>(bytes: &[u8]) -> Result<M, WireError> {
    require_affordable::<M>(bytes)?;
    decoded(bytes)
}

fn decoded<M: Message + Default>(bytes: impl Buf) -> Result<M, WireError> {
    M::decode(bytes).map_err(|error| WireError::new(ErrorKind::Invalid, error.to_string()))
}

/// The codec of all services.
#[derive(Debug)]
pub struct BoundedCodec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for BoundedCodec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> Codec for BoundedCodec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Shaped + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = BoundedDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<T, U>::raw_encoder(BufferSettings::default())
    }

    fn decoder(&mut self) -> Self::Decoder {
        BoundedDecoder(PhantomData)
    }
}

/// See [`BoundedCodec`].
#[derive(Debug)]
pub struct BoundedDecoder<U>(PhantomData<U>);

impl<U: Message + Default + Shaped> Decoder for BoundedDecoder<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, buf: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        // gRPC hands a message over in one piece.
        let whole = buf.chunk().len() == buf.remaining();
        debug_assert!(whole, "a message in pieces");
        if whole {
            require_affordable::<U>(buf.chunk())?;
            Ok(Some(decoded(buf)?))
        } else {
            let bytes = buf.copy_to_bytes(buf.remaining());
            require_affordable::<U>(&bytes)?;
            Ok(Some(decoded(bytes)?))
        }
    }
}
