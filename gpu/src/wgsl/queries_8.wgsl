// Queries of a workgroup: two groups of four, of heads with up to 128 elements.
const GROUPS = 2u;
const ELEMENTS = 128u;
const POSITIONS = 256u;
