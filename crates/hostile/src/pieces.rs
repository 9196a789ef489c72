//! Cutting a stream into pieces that depend on the stream alone.

/// Cuts `bytes` into pieces of 1 to 16 bytes, as `seed` says; nothing into one empty piece.
pub(crate) fn cut(mut bytes: &[u8], seed: u8) -> Vec<&[u8]> {
    if bytes.is_empty() {
        return vec![bytes];
    }
    let mut pieces = Vec::new();
    let mut state = u32::from(seed);
    while !bytes.is_empty() {
        // A step of a linear congruential generator; its upper bits are random enough here.
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let length = 1 + (state >> 28) as usize;
        let (piece, rest) = bytes.split_at(length.min(bytes.len()));
        pieces.push(piece);
        bytes = rest;
    }
    pieces
}

/// The first byte, for choosing variants, and the rest.
pub(crate) fn choice(bytes: &[u8]) -> Option<(u8, &[u8])> {
    let (first, rest) = bytes.split_first()?;
    Some((*first, rest))
}
