// Invocations for two outputs: 512 columns.
const SLOT_LANES = 16u;
