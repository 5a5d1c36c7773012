//! What the program knows of machines and builds that may open an epoch.
pub mod announcement;
