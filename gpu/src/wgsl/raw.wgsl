// Activations are floats where P.raw is 1: an invocation quantizes what it reads.
const MAY_BE_RAW = true;
const TABLE = 8u * SLOT_LANES / SUBS; // the blocks of a part, of 8 rows
