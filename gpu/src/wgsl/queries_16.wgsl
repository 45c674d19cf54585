// Queries of a workgroup: four groups of four, of heads with up to 64 elements.
const GROUPS = 4u;
const ELEMENTS = 64u;
const POSITIONS = 128u;
