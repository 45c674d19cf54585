// Activations are always codes. So no table takes memory from other workgroups.
const MAY_BE_RAW = false;
const TABLE = 1u;
