//! What a peer may ask of us, and why no more.

/// Longest export name or other text, in bytes: what the protocol allows.
pub const NAME_BYTES_MAX: usize = 4096;

/// Longest option that is read into memory. `GO` and `SET_META_CONTEXT` need a name and a few
/// short queries; twice a name leaves room for them.
pub const OPTION_BYTES_MAX: u32 = 8192;

/// Longest option that is skipped and answered with `ERR_TOO_BIG`. Beyond it the peer is not
/// haggling any more and the connection is closed.
pub const OPTION_SKIP_BYTES_MAX: u32 = 1 << 20;

/// Options in one handshake. QEMU and libnbd send fewer than ten; a peer that never comes to
/// the point is cut off.
pub const OPTIONS_MAX: u32 = 128;

/// Smallest unit of address and length that we advertise, in bytes: a sector.
pub const BLOCK_BYTES_MIN: u32 = 512;

/// The unit that we advertise as preferred, in bytes: our unit of caching.
pub const BLOCK_BYTES_PREFERRED: u32 = 4096;

/// Largest payload of one request that we advertise, in bytes: what every client assumes of a
/// server that advertises nothing.
pub const PAYLOAD_BYTES_MAX: u32 = 32 << 20;

/// Longest text that we put into an error, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 256;

/// Longest payload of a server's option reply that the client machine takes, in bytes: a name,
/// a description and their lengths.
pub const OPTION_REPLY_BYTES_MAX: u32 = 16 << 10;

/// Replies to one option that the client machine reads before it gives up on the server.
pub const OPTION_REPLIES_MAX: u32 = 4096;

/// Longest payload of a structured reply that is not data, in bytes: errors with a message and
/// block status descriptors.
pub const CHUNK_BYTES_MAX: u32 = 64 << 10;

const _: () = assert!(OPTION_BYTES_MAX as usize > NAME_BYTES_MAX + 16);
const _: () = assert!(BLOCK_BYTES_PREFERRED.is_multiple_of(BLOCK_BYTES_MIN));
const _: () = assert!(PAYLOAD_BYTES_MAX.is_multiple_of(BLOCK_BYTES_PREFERRED));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_book_names_the_limits() {
        let page = include_str!("../../../book/src/reference/nbd.md");
        for (what, value) in [
            ("smallest block", u64::from(BLOCK_BYTES_MIN)),
            ("preferred block", u64::from(BLOCK_BYTES_PREFERRED)),
            (
                "largest payload of a read or write",
                u64::from(PAYLOAD_BYTES_MAX),
            ),
            ("name or other text", NAME_BYTES_MAX as u64),
            (
                "an option's data; longer ones are skipped and answered `ERR_TOO_BIG`",
                u64::from(OPTION_BYTES_MAX),
            ),
            (
                "an option's data; longer ones end the session",
                u64::from(OPTION_SKIP_BYTES_MAX),
            ),
        ] {
            let row = format!("| {what} | {value} bytes |");
            assert!(page.contains(&row), "{row}");
        }
        let row = format!("| options in a handshake | {OPTIONS_MAX} |");
        assert!(page.contains(&row), "{row}");
    }
}
