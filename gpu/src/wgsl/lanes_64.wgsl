// Invocations that share two outputs: 2048 columns at a time.
const SLOT_LANES = 64u;
