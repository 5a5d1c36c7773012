//! What the program knows of machines and builds that may open an epoch.
pub mod announcement;
pub mod certificate;
pub mod der;
pub mod platform;
pub mod precompile;
pub mod sgx_extension;
