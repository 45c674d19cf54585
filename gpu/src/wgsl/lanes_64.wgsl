// Invocations for two outputs: 2048 columns.
const SLOT_LANES = 64u;
