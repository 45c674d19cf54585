// Invocations that share two outputs: 512 columns at a time.
const SLOT_LANES = 16u;
