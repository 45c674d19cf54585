// Queries of a workgroup: one group of four, of heads with up to 512 elements.
const GROUPS = 1u;
const ELEMENTS = 512u;
const POSITIONS = 256u;
