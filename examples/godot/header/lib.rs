//! Nothing: the package is here for its dependency.
