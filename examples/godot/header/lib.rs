//! This package is empty. It exists for its dependency.
