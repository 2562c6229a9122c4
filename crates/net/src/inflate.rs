//! Decompression of whole bodies with libdeflate and zstd, under a limit.
//!
//! Invariant: the output never exceeds the caller's limit or the largest possible expansion of the input, whatever
//! size the input declares; the input's size field is only a hint. Memory is requested from an [`Allowance`] before
//! it is allocated.

use std::cell::RefCell;
use std::ffi::c_void;
use std::io::Read;
use std::ptr::NonNull;

use flate2::bufread::{DeflateDecoder, GzDecoder, ZlibDecoder};
use libdeflate_sys as sys;
use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

use crate::allowance::{Allowance, Unlimited, reserve};
use crate::encoding::Encoding;
use crate::error::NetError;

/// Largest initial allocation per input byte. Exposition text compresses 10 to 20 fold.
const FIRST_RATIO: usize = 32;
/// Smallest output space of a first attempt.
const FIRST_BYTES: usize = 16 << 10;
/// Windows up to 8 MiB, which RFC 9659 allows; frames with larger ones are rejected.
const ZSTD_WINDOW_LOG: u32 = 23;
/// Largest growth of the output at once, whatever a frame declares.
const ZSTD_STEP_BYTES: usize = 1 << 20;
/// Largest growth at once of output that is longer than guessed.
const STEP_BYTES: usize = 16 << 20;
/// Read size for such output, which has to be zeroed first.
const READ_BYTES: usize = 64 << 10;
/// A larger buffer is not kept after an error.
const KEEP_ON_ERROR_BYTES: usize = 1 << 20;

/// Replaces the contents of `out` with the decompressed `input`, reusing its allocation.
///
/// `identity` copies. All gzip members are read; a tail that is not a member is an error, as in Go. Takes at most
/// about twice the time of decompressing `limit_bytes`. On error `out` is empty.
///
/// # Errors
/// [`NetError::BodyTooLarge`] when the output would exceed `limit_bytes`, [`NetError::CorruptBody`] when the input is
/// damaged, truncated or in another format.
pub fn decompress(
    encoding: Encoding,
    input: &[u8],
    limit_bytes: usize,
    out: &mut Vec<u8>,
) -> Result<(), NetError> {
    decompress_within(encoding, input, limit_bytes, &mut Unlimited, out)
}

/// Like [`decompress`], but requests the growth of `out` from `allowance`.
///
/// A body that expands more than expected grows in steps, each of which may be refused, so that a small bomb is
/// stopped by the available memory rather than by `limit_bytes`.
///
/// # Errors
/// As [`decompress`], and [`NetError::Memory`].
pub fn decompress_within(
    encoding: Encoding,
    input: &[u8],
    limit_bytes: usize,
    allowance: &mut dyn Allowance,
    out: &mut Vec<u8>,
) -> Result<(), NetError> {
    out.clear();
    let result = match encoding {
        Encoding::Identity if input.len() > limit_bytes => {
            Err(NetError::BodyTooLarge { limit_bytes })
        }
        Encoding::Identity => {
            reserve(out, input.len(), allowance).map(|()| out.extend_from_slice(input))
        }
        Encoding::Gzip => gunzip(input, limit_bytes, allowance, out),
        Encoding::Deflate => inflate(input, limit_bytes, allowance, out),
        Encoding::Zstd => unzstd(input, limit_bytes, allowance, out),
    };
    if result.is_err() {
        out.clear();
        out.shrink_to(KEEP_ON_ERROR_BYTES);
    }
    result
}

/// Appends the contents of all frames.
fn unzstd(
    input: &[u8],
    limit_bytes: usize,
    allowance: &mut dyn Allowance,
    out: &mut Vec<u8>,
) -> Result<(), NetError> {
    let bad = |reason| corrupt(Encoding::Zstd, reason);
    let mut decoder = Decoder::new().map_err(|_error| bad("no memory for a decoder"))?;
    let window = zstd::zstd_safe::DParameter::WindowLogMax(ZSTD_WINDOW_LOG);
    decoder
        .set_parameter(window)
        .map_err(|_error| bad("no such window"))?;
    if input.is_empty() {
        return Err(bad("no frame"));
    }
    let mut input = InBuffer::around(input);
    loop {
        let want_bytes = (input.src.len() * 8)
            .clamp(FIRST_BYTES, ZSTD_STEP_BYTES)
            .min(limit_bytes.saturating_sub(out.len()).saturating_add(1));
        if out.capacity() == out.len() {
            reserve(out, want_bytes, allowance)?;
        }
        let before = (input.pos, out.len());
        let at = out.len();
        let mut output = OutBuffer::around_pos(out, at);
        let left = decoder
            .run(&mut input, &mut output)
            .map_err(|_error| bad("corrupt or truncated data"))?;
        let made_bytes = output.pos();
        if made_bytes > limit_bytes {
            return Err(NetError::BodyTooLarge { limit_bytes });
        }
        let full = made_bytes == out.capacity();
        if input.pos == input.src.len() && !full {
            return if left == 0 {
                Ok(())
            } else {
                Err(bad("corrupt or truncated data"))
            };
        }
        if before == (input.pos, made_bytes) && !full {
            return Err(bad("corrupt or truncated data"));
        }
    }
}

fn gunzip(
    input: &[u8],
    limit_bytes: usize,
    allowance: &mut dyn Allowance,
    out: &mut Vec<u8>,
) -> Result<(), NetError> {
    let mut rest = input;
    loop {
        if !rest.starts_with(&[0x1f, 0x8b]) {
            return Err(corrupt(Encoding::Gzip, "invalid header"));
        }
        let used_bytes = inflate_stream(Format::Gzip, rest, limit_bytes, allowance, out)?;
        rest = rest.get(used_bytes..).unwrap_or_default();
        if rest.is_empty() {
            return Ok(());
        }
    }
}

fn inflate(
    input: &[u8],
    limit_bytes: usize,
    allowance: &mut dyn Allowance,
    out: &mut Vec<u8>,
) -> Result<(), NetError> {
    // RFC 1950: method 8, and the first two bytes are a multiple of 31.
    let zlib = matches!(input, [cmf, flags, ..]
        if cmf & 0x0f == 8 && u16::from_be_bytes([*cmf, *flags]) % 31 == 0);
    let format = if zlib { Format::Zlib } else { Format::Raw };
    let used_bytes = inflate_stream(format, input, limit_bytes, allowance, out)?;
    if used_bytes < input.len() {
        return Err(corrupt(
            Encoding::Deflate,
            "data after the end of the stream",
        ));
    }
    Ok(())
}

/// Appends one stream's output; returns the number of input bytes consumed.
///
/// libdeflate is more than twice as fast as an incremental decoder, but cannot resume: it gets one attempt, with the
/// expected size.
fn inflate_stream(
    format: Format,
    input: &[u8],
    limit_bytes: usize,
    allowance: &mut dyn Allowance,
    out: &mut Vec<u8>,
) -> Result<usize, NetError> {
    let room_bytes = limit_bytes - out.len();
    let want_bytes = first_guess(format, input, room_bytes);
    reserve(out, want_bytes, allowance)?;
    // A buffer reused from a larger body may have more room than the limit allows.
    let avail_bytes = (out.capacity() - out.len()).min(room_bytes);
    match with_decompressor(|d| d.attempt(format, input, avail_bytes, out)) {
        Attempt::Done { used_bytes } => Ok(used_bytes),
        Attempt::Short if avail_bytes == room_bytes => Err(NetError::BodyTooLarge { limit_bytes }),
        Attempt::Short => inflate_in_steps(format, input, limit_bytes, allowance, out),
        Attempt::Bad => Err(corrupt(format.encoding(), "corrupt or truncated data")),
    }
}

/// Like [`inflate_stream`], for output of any length: the room grows by half, in bounded steps.
fn inflate_in_steps(
    format: Format,
    input: &[u8],
    limit_bytes: usize,
    allowance: &mut dyn Allowance,
    out: &mut Vec<u8>,
) -> Result<usize, NetError> {
    let mut decoder = Pieces::new(format, input);
    loop {
        let at = out.len();
        if at == out.capacity() && at < limit_bytes {
            let more_bytes = (at / 2).clamp(FIRST_BYTES, STEP_BYTES);
            reserve(out, more_bytes.min(limit_bytes - at), allowance)?;
        }
        let room_bytes = (out.capacity() - at).min(limit_bytes - at);
        out.resize(at + room_bytes.min(READ_BYTES), 0);
        let read = match out.get_mut(at..).unwrap_or_default() {
            // Only another read shows whether there is more.
            [] => decoder.read(&mut [0]),
            room => decoder.read(room),
        };
        let read_bytes =
            read.map_err(|_error| corrupt(format.encoding(), "corrupt or truncated data"))?;
        if read_bytes > room_bytes {
            return Err(NetError::BodyTooLarge { limit_bytes });
        }
        out.truncate(at + read_bytes);
        if read_bytes == 0 {
            return Ok(input.len() - decoder.unread_bytes());
        }
    }
}

/// One stream, decoded incrementally.
enum Pieces<'a> {
    Gzip(Box<GzDecoder<&'a [u8]>>),
    Zlib(ZlibDecoder<&'a [u8]>),
    Raw(DeflateDecoder<&'a [u8]>),
}

impl<'a> Pieces<'a> {
    fn new(format: Format, input: &'a [u8]) -> Self {
        match format {
            Format::Gzip => Self::Gzip(Box::new(GzDecoder::new(input))),
            Format::Zlib => Self::Zlib(ZlibDecoder::new(input)),
            Format::Raw => Self::Raw(DeflateDecoder::new(input)),
        }
    }

    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Self::Gzip(decoder) => decoder.read(out),
            Self::Zlib(decoder) => decoder.read(out),
            Self::Raw(decoder) => decoder.read(out),
        }
    }

    fn unread_bytes(&self) -> usize {
        match self {
            Self::Gzip(decoder) => decoder.get_ref().len(),
            Self::Zlib(decoder) => decoder.get_ref().len(),
            Self::Raw(decoder) => decoder.get_ref().len(),
        }
    }
}

fn first_guess(format: Format, input: &[u8], room_bytes: usize) -> usize {
    let bound = input.len().saturating_mul(FIRST_RATIO).max(FIRST_BYTES);
    let hint = match (format, input) {
        (Format::Gzip, [.., a, b, c, d]) => u32::from_le_bytes([*a, *b, *c, *d]) as usize,
        _ => bound / 4,
    };
    // Slightly more than declared, so that a body that grows by a line can reuse its buffer.
    hint.saturating_add(hint / 8).min(bound).min(room_bytes)
}

fn corrupt(encoding: Encoding, reason: &'static str) -> NetError {
    NetError::CorruptBody { encoding, reason }
}

#[derive(Debug, Clone, Copy)]
enum Format {
    Gzip,
    Zlib,
    Raw,
}

impl Format {
    fn encoding(self) -> Encoding {
        match self {
            Self::Gzip => Encoding::Gzip,
            Self::Zlib | Self::Raw => Encoding::Deflate,
        }
    }
}

enum Attempt {
    Done { used_bytes: usize },
    Short,
    Bad,
}

/// libdeflate's tables (11 KB). The safe wrapper lacks the calls that report the end of a member.
struct Decompressor(NonNull<sys::libdeflate_decompressor>);

fn with_decompressor<R>(run: impl FnOnce(&mut Decompressor) -> R) -> R {
    thread_local! {
        static DECOMPRESSOR: RefCell<Decompressor> = RefCell::new(Decompressor::new());
    }
    DECOMPRESSOR.with_borrow_mut(run)
}

impl Decompressor {
    fn new() -> Self {
        // SAFETY: no preconditions; the result is checked below and freed in `drop`.
        let pointer = unsafe { sys::libdeflate_alloc_decompressor() };
        Self(
            NonNull::new(pointer).expect("allocation of 11 KB fails only when the process is lost"),
        )
    }

    /// Decompresses one stream into at most `avail_bytes` of `out`'s spare capacity.
    fn attempt(
        &mut self,
        format: Format,
        input: &[u8],
        avail_bytes: usize,
        out: &mut Vec<u8>,
    ) -> Attempt {
        let call = match format {
            Format::Gzip => sys::libdeflate_gzip_decompress_ex,
            Format::Zlib => sys::libdeflate_zlib_decompress_ex,
            Format::Raw => sys::libdeflate_deflate_decompress_ex,
        };
        let spare = out.spare_capacity_mut();
        let avail_bytes = avail_bytes.min(spare.len());
        let (mut used_bytes, mut made_bytes) = (0, 0);
        // SAFETY: the decompressor is live and ours alone; `input` is readable for its length and
        // `spare` writable for `avail_bytes`, which is at most its length; both sizes are returned
        // through valid pointers.
        let result = unsafe {
            call(
                self.0.as_ptr(),
                input.as_ptr().cast::<c_void>(),
                input.len(),
                spare.as_mut_ptr().cast::<c_void>(),
                avail_bytes,
                &raw mut used_bytes,
                &raw mut made_bytes,
            )
        };
        match result {
            sys::libdeflate_result_LIBDEFLATE_SUCCESS => {
                debug_assert!(
                    made_bytes <= avail_bytes,
                    "libdeflate writes within its room"
                );
                // SAFETY: libdeflate wrote `made_bytes <= avail_bytes` bytes after `out.len()`.
                unsafe { out.set_len(out.len() + made_bytes) };
                Attempt::Done { used_bytes }
            }
            sys::libdeflate_result_LIBDEFLATE_INSUFFICIENT_SPACE => Attempt::Short,
            _ => Attempt::Bad,
        }
    }
}

impl Drop for Decompressor {
    fn drop(&mut self) {
        // SAFETY: allocated by `libdeflate_alloc_decompressor` and freed only here.
        unsafe { sys::libdeflate_free_decompressor(self.0.as_ptr()) };
    }
}

#[cfg(test)]
mod tests;
