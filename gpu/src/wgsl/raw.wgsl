// Activations are floats where P.raw is 1. Then an invocation quantizes the floats that it reads.
const MAY_BE_RAW = true;
const TABLE = 8u * SLOT_LANES / SUBS; // blocks of a part of 8 rows
