pub(super) const END: u32 = 0;
pub(super) static BLOCK_OF: [u8; 1] = [0];
pub(super) static BLOCKS: [u128; 1] = [0];
